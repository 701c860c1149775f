"""Numbers and selections that decide on sizes: where one stands, so that it can be forced.

While it compiles, torch takes a size that the data decides to be neither 0 nor 1.  Where no input
shows these cases, both programs are run with the number, or the selection, that the size is made of
as 0 and as 1 (`gbfix.worker.factlog.size`).
"""

from __future__ import annotations

import ast

from gbfix.analysis.trees import tree_of
from gbfix.schema import Span

#: Where a part stands: the node and field that hold it, the part, and what it is.
Part = tuple[ast.AST, str, ast.expr, str]


def deciding_part(node: ast.expr) -> Part | None:
    """The tensor in the expression whose data decides on a number (``int(x)``, ``x.item()``) or on
    how many elements are picked (``x[mask]``, ``mask.nonzero()``, ``torch.where(mask)``).
    """
    match node:
        case ast.Call(func=ast.Name(id="int" | "float" | "bool"), args=[part], keywords=[]):
            return node, "args", part, "number"
        case ast.Call(func=ast.Attribute(value=part, attr="item") as func, args=[]):
            return func, "value", part, "number"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[part]):
            return (
                (node, "args", part, "mask") if name in ("nonzero", "argwhere", "where") else None
            )
        case ast.Call(func=ast.Attribute(value=part, attr="nonzero" | "argwhere") as func, args=[]):
            return func, "value", part, "mask"
        case ast.Subscript(slice=ast.Name() | ast.Compare() | ast.UnaryOp() | ast.BinOp() as part):
            return node, "slice", part, "mask"
    return None


def place_on(text: str, line: int) -> Span | None:
    """The one expression on the line that decides on a size; None where there are more, or none.

    Columns are counted in bytes, as `ast` does.
    """
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError):
        return None
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or node.lineno != line:
            continue
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            continue
        part = deciding_part(node)
        if part is None or isinstance(part[2], ast.Constant):
            continue
        inner = deciding_part(part[2])
        if inner is None or inner[3] != "number":  # `int(x.max().item())` is one
            found.append(node)
    if len(found) != 1:
        return None
    (node,) = found
    return Span(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
