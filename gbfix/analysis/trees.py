"""The tree of a text, made once: one file is asked about many times while rewrites are tried."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator


@functools.lru_cache(maxsize=24)
def tree_of(text: str) -> ast.Module:
    """The tree of a text.  It is shared: nobody may change it.

    Raises what `ast.parse` raises: ``SyntaxError``, ``ValueError``.
    """
    return ast.parse(text)


def alternatives(value: ast.expr) -> Iterator[ast.expr]:
    """What an expression may be: ``act or nn.ReLU()`` is one of two."""
    match value:
        case ast.BoolOp(values=values):
            parts = values
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, orelse]
        case ast.NamedExpr(value=inner):
            parts = [inner]
        case _:
            yield value
            return
    for part in parts:
        yield from alternatives(part)
