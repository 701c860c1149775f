"""The tree of a text, made once: one file is asked about many times while rewrites are tried."""

from __future__ import annotations

import ast
import functools


@functools.lru_cache(maxsize=24)
def tree_of(text: str) -> ast.Module:
    """The tree of a text.  It is shared: nobody may change it.

    Raises what `ast.parse` raises: ``SyntaxError``, ``ValueError``.
    """
    return ast.parse(text)
