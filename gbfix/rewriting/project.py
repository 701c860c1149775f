"""Questions about all texts of a project: who speaks of a word, and who writes an attribute."""

from __future__ import annotations

import ast
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
