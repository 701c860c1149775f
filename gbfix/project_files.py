"""The texts of a whole project, also of files that the program did not load.

Who overrides a method, registers hooks or imports a file under another name may stand in any of
them.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from gbfix.source import SourceError, SourceFile

#: A project with more files than this is read in part: it is a collection of projects.
_MOST_FILES = 2000
_MOST_BYTES = 1_000_000
_SKIPPED = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})
#: Who says one of these may load a file that a string names.
_LOADS_BY_NAME = re.compile(r"\b(?:importlib|__import__|runpy|exec|import_module)\b")


@functools.lru_cache(maxsize=2)
def texts(root: str) -> Mapping[str, str]:
    """By path: the Python files below a folder, without environments and hidden folders."""
    found: dict[str, str] = {}
    for path in _paths(root):
        if len(found) >= _MOST_FILES:
            break
        try:
            found[path] = SourceFile.read(path).text
        except SourceError:
            continue
    return found


def _paths(root: str) -> Iterator[str]:
    for folder, below, names in os.walk(root):
        below[:] = sorted(
            name
            for name in below
            if name not in _SKIPPED
            and not name.startswith(".")
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        )
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py") and os.path.getsize(path) <= _MOST_BYTES:
                yield path


def neighbours(loaded: Collection[str], entry: str, root: str) -> Mapping[str, str]:
    """The texts of the files that import one of those that the program loaded, or one that does.

    ``entry`` is the absolute path of the file that was started, if one was; ``root`` the folder of
    the project.  A report, a study or a test beside the program calls its functions and sets its
    globals, too: what is asked of "the project" is asked of these as well.  Nothing of them ran.
    """
    started = [entry] if entry else []
    others = {path: text for path, text in texts(root).items() if path not in {*loaded, *started}}
    if not others:
        return {}
    known = {word for path in (*loaded, *started) for word in _module_names(path)}
    imported: dict[str, frozenset[str]] = {}
    found: dict[str, str] = {}
    while True:
        named = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(known)))})\b")
        more = []
        for name, text in others.items():
            if named.search(text) or _imports_own_package(text):
                if name not in imported:
                    imported[name] = _imported(name, text)
                if not known.isdisjoint(imported[name]):
                    more.append(name)
        if not more:
            return found
        for name in more:
            found[name] = others.pop(name)
            known |= _module_names(name)


def _module_names(path: str) -> set[str]:
    """The word under which other files may import this one: its own, or its package's."""
    place = Path(path)
    return {place.parent.name} if place.stem == "__init__" else {place.stem}


def _imports_own_package(text: str) -> bool:
    return re.search(r"^\s*from\s+\.+\s+import\b", text, re.MULTILINE) is not None


def _imported(path: str, text: str) -> frozenset[str]:
    """The parts of the names that a file imports; of all its strings, where it loads by name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape is the file's own matter
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    by_name = _LOADS_BY_NAME.search(text) is not None
    words: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                words |= {part for item in names for part in item.name.split(".")}
            case ast.ImportFrom(module=module, names=names, level=level):
                words |= {item.name for item in names} | set((module or "").split("."))
                words |= set(Path(path).parent.parts) if level and module is None else set()
            case ast.Constant(value=str(value)) if by_name:
                words |= set(re.findall(r"\w+", value))
    return frozenset(words)
