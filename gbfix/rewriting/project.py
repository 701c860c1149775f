"""Questions about all texts of a project: who speaks of a word, and who writes an attribute."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Iterator

from gbfix.codemod import Site


def mentions(site: Site, pattern: str) -> bool:
    """Whether any text of the project has a match of the pattern."""
    found = re.compile(pattern)
    return any(found.search(text) for text in (site.source, *site.sources.values()))


def occurrences(site: Site, word: str) -> int:
    """How often the project's texts have a word; the site's own text counts once."""
    pattern = re.compile(rf"\b{re.escape(word)}\b")
    return sum(len(pattern.findall(text)) for text in _texts(site))


def writers(site: Site, attribute: str) -> Iterator[tuple[str, ast.AST]]:
    """The statements (with their file) that store to an attribute of that name, of any object."""
    for path, text in {site.path: site.source, **site.sources}.items():
        for node in _stores(text, attribute):
            yield path, node


def is_replaced(site: Site, name: str) -> bool:
    """Whether the project puts something else where a function or a method of that name is found:
    ``net.refine = traced``, ``setattr(net, "refine", ...)``, ``patch.object(net, "refine")``.

    (What another class keeps by that name, ``self.refine = ...``, is its own.)
    """
    stored = (part for _, node in writers(site, name) for part in ast.walk(node))
    if any(
        isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and part.attr == name
        and not (isinstance(part.value, ast.Name) and part.value.id in ("self", "cls"))
        for part in stored
    ):
        return True
    quoted = rf"['\"]([\w.]+\.)?{re.escape(name)}['\"]"
    if mentions(site, r"\bsetattr\(\s*(?:\w*mod(?:ule)?|sys\.modules\[[^\]]*\])\s*,\s*[^'\"\s]"):
        return True  # any function of a module, by a name that is computed
    return mentions(site, rf"(setattr|__setattr__|patch|patch\.object)\([^()]*{quoted}")


def home_of(site: Site, qualname: str) -> tuple[str, str]:
    """The project's file whose module begins a dotted name, and the rest of the name.

    ``("", "")`` where no file, or more than one, has that module's name: ``__main__`` is the script
    that was started.
    """
    head, _, rest = qualname.partition(".")
    if head == "__main__":
        path = site.entry or site.path
        return (path, rest) if path in {site.path, *site.sources} else ("", "")
    found = {
        (path, qualname.removeprefix(f"{module}."))
        for path in {site.path, *site.sources}
        for module in _modules(path)
        if qualname.startswith(f"{module}.")
    }
    longest = min((len(rest) for _, rest in found), default=0)
    best = [(path, rest) for path, rest in found if len(rest) == longest]
    return best[0] if len(best) == 1 else ("", "")


def _modules(path: str) -> Iterator[str]:
    """The names that the module of a file may have: ``losses``, ``package.losses``..."""
    *folders, name = path.removesuffix(".py").replace("\\", "/").split("/")
    parts = folders if name == "__init__" else [*folders, name]
    for first in range(len(parts)):
        yield ".".join(parts[first:])


def catches(site: Site, *exceptions: str) -> bool:
    """Whether a handler around calls, anywhere in the project, takes one of these exceptions.

    ``Exception`` and a bare ``except`` take all of them.
    """
    return any(_catches(text, exceptions) for text in _texts(site))


@functools.lru_cache(maxsize=256)
def _catches(text: str, exceptions: tuple[str, ...]) -> bool:
    kinds = {
        parent.__name__ for name in exceptions for parent in getattr(builtins, name).__mro__[:-1]
    }
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try | ast.TryStar):
            continue
        if not any(isinstance(part, ast.Call) for line in node.body for part in ast.walk(line)):
            continue
        for handler in node.handlers:
            types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            if any(kind is None or ast.unparse(kind).split(".")[-1] in kinds for kind in types):
                return True
    return False


def _texts(site: Site) -> set[str]:
    others = {text for path, text in site.sources.items() if path != site.path}
    return {site.source, *others}


@functools.lru_cache(maxsize=256)
def _stores(text: str, attribute: str) -> tuple[ast.AST, ...]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    return tuple(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == attribute
        and isinstance(node.ctx, ast.Store | ast.Del)
    )
