"""Methods that a method calls on its own object, also through others."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def called_on_self(text: str, lines: Collection[int], most: int = 8) -> list[int]:
    """The first lines of the methods that functions around ``lines`` reach by ``self.name``.

    Properties are among them.  Names that several classes of the text define are left out.
    """
    methods, uses = _methods(text)
    pending = [name for name, _, uses_of in uses if any(line in uses_of for line in lines)]
    found: dict[str, int] = {}
    for name in pending:
        places = methods.get(name, ())
        if len(places) != 1 or name in found:
            continue
        start, end = places[0]
        if any(start <= line <= end for line in lines):
            continue
        found[name] = start
        if len(found) >= most:
            break
        pending += [more for more, line, _ in uses if start <= line <= end]
    return sorted(found.values())


@functools.lru_cache(maxsize=32)
def _methods(
    text: str,
) -> tuple[dict[str, list[tuple[int, int]]], list[tuple[str, int, range]]]:
    """Where methods of the text's classes stand, and each ``self.name`` with its line and the
    lines of the function around it.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}, []
    methods: dict[str, list[tuple[int, int]]] = {}
    uses = []
    for holder in ast.walk(tree):
        for item in holder.body if isinstance(holder, ast.ClassDef) else ():
            if not isinstance(item, _FUNCTIONS):
                continue
            end = item.end_lineno or item.lineno
            methods.setdefault(item.name, []).append((item.lineno, end))
            for node in ast.walk(item):
                if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
                    uses.append((node.attr, node.lineno, range(item.lineno, end + 1)))
    return methods, uses
