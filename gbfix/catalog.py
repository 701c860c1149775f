"""Which codemods are installed and what they answer, read from their source without importing it.

Importing codemods means importing LibCST, which `gbfix codes` and `gbfix explain` do not wait for.
The contract makes this possible: ``name`` and ``codes`` are literals in the class body.  Running
the codemods uses `gbfix.codemod.discover`; the test suite holds the two to the same answer.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

GROUP = "gbfix.codemods"

_CLASS = re.compile(r"^class\s+\w+[^\n]*", re.MULTILINE)
_ATTRIBUTE = r"^[ \t]+{}[ \t]*(?::[^=\n]+)?=[ \t]*"
_NAME = re.compile(_ATTRIBUTE.format("name"), re.MULTILINE)
_CODES = re.compile(_ATTRIBUTE.format("codes"), re.MULTILINE)


_STRING = re.compile(r'"[^"\\\n]*"')
_STRINGS = re.compile(r'\(\s*"[^"\\\n]*"\s*,\s*(?:"[^"\\\n]*"\s*(?:,\s*|(?=\))))*\)')
_LITERAL_STARTS = ("(", '"', "'")


@dataclasses.dataclass(frozen=True)
class CodemodInfo:
    """A codemod as its source states it; ``path`` is the file that it lives in."""

    name: str
    codes: tuple[str, ...]
    path: str


@functools.lru_cache(maxsize=1)
def codemods() -> tuple[CodemodInfo, ...]:
    """All installed codemods, in order of name.  Files that cannot be read or parsed are passed
    over: what is wrong with them is told when they are imported to be run.
    """
    found: dict[str, CodemodInfo] = {}
    for value in _entry_points():
        for path in _files(value):
            for info in _read(path):
                found.setdefault(info.name, info)
    return tuple(found[name] for name in sorted(found))


def answering(code: str) -> tuple[str, ...]:
    """The names of the codemods that answer a code or family, in order of name."""
    return tuple(info.name for info in codemods() if code in info.codes)


def _entry_points() -> Iterator[str]:
    """Values of the entry points in our group (``package.module``), in order of their names.

    Reads the metadata folders on ``sys.path`` directly: ``importlib.metadata`` finds the same and
    costs as much start-up time as everything else in these commands together.
    """
    found: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            listed = os.listdir(folder or ".")
        except OSError:
            continue
        for name in sorted(n for n in listed if n.endswith((".dist-info", ".egg-info"))):
            try:
                text = Path(folder, name, "entry_points.txt").read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            section = text.partition(f"[{GROUP}]")[2].partition("\n[")[0]
            for line in section.splitlines():
                key, equals, value = line.partition("=")
                if equals and not line.lstrip().startswith(("#", ";")):
                    found.setdefault(key.strip(), value.partition(":")[0].strip())
    for _, value in sorted(found.items()):
        yield value


def _files(dotted: str) -> Iterator[Path]:
    """The Python files of a package or module, found without importing it or its parents."""
    top, *rest = dotted.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    if not rest and not spec.submodule_search_locations:
        if spec.origin is not None:
            yield Path(spec.origin)
        return
    for location in spec.submodule_search_locations or ():
        path = Path(location, *rest)
        if path.is_dir():
            yield from sorted(path.rglob("*.py"))
        elif path.with_suffix(".py").is_file():
            yield path.with_suffix(".py")


def _read(path: Path) -> Iterator[CodemodInfo]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    # Parsing every file in full would take longer than all else; the two literals are enough.
    heads = [m.start() for m in _CLASS.finditer(text) if not _in_string(text, m.start())]
    for start, end in zip(heads, [*heads[1:], len(text)], strict=False):
        name = _literal(_NAME, text, start, end, ends="\n")
        codes = _literal(_CODES, text, start, end, ends=")")
        if isinstance(name, str) and isinstance(codes, tuple):
            yield CodemodInfo(name, tuple(c for c in codes if isinstance(c, str)), str(path))


def _literal(pattern: re.Pattern[str], text: str, start: int, end: int, *, ends: str) -> object:
    """The value of the first such assignment: the shortest literal up to ``ends``."""
    for match in pattern.finditer(text, start, end):
        if _in_string(text, match.start()):
            continue
        stop = match.end()
        if text[stop : stop + 1] not in _LITERAL_STARTS:
            return None  # something computed, such as ``name = call()``
        for _ in range(50):
            stop = text.find(ends, stop, end) + 1
            if not stop:
                break
            literal = text[match.end() : stop].strip()
            # Nearly all are plain strings, and tuples of them: no need for the parser.
            if _STRING.fullmatch(literal):
                return literal[1:-1]
            if _STRINGS.fullmatch(literal):
                return tuple(item[1:-1] for item in _STRING.findall(literal))
            try:
                return ast.literal_eval(literal)
            except (ValueError, SyntaxError):
                continue
        return None
    return None


def _in_string(text: str, position: int) -> bool:
    """Whether the position is inside a triple-quoted string, as far as counting quotes can tell."""
    return text.count('"""', 0, position) % 2 == 1 or text.count("'''", 0, position) % 2 == 1
