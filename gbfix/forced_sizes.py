"""Numbers and selections that decide on sizes: where one stands, so that it can be forced.

While it compiles, torch takes a size that the data decides to be neither 0 nor 1.  Where no input
shows these cases, both programs are run with the number, or the selection, that the size is made of
as 0 and as 1 (`gbfix.worker.factlog.size`).
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from gbfix.analysis.trees import tree_of
from gbfix.schema import Span

#: Where a part stands: the node and field that hold it, the part, and what it is.
Part = tuple[ast.AST, str, ast.expr, str]


def deciding_part(node: ast.expr) -> Part | None:
    """The tensor in the expression whose data decides on a number (``int(x)``, ``x.item()``), on
    several (``x.tolist()``), or on how many elements are picked (``x[mask]``, ``mask.nonzero()``,
    ``torch.where(mask)``).
    """
    match node:
        case ast.Call(func=ast.Name(id="int" | "float" | "bool"), args=[part], keywords=[]):
            return node, "args", part, "number"
        case ast.Call(func=ast.Attribute(value=part, attr="item") as func, args=[]):
            return func, "value", part, "number"
        case ast.Call(func=ast.Attribute(value=part, attr="tolist") as func, args=[]):
            return func, "value", part, "numbers"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[part]):
            return (
                (node, "args", part, "mask") if name in ("nonzero", "argwhere", "where") else None
            )
        case ast.Call(func=ast.Attribute(value=part, attr="nonzero" | "argwhere") as func, args=[]):
            return func, "value", part, "mask"
        case ast.Subscript(slice=ast.Name() | ast.Compare() | ast.UnaryOp() | ast.BinOp() as part):
            return node, "slice", part, "mask"
    return None


def places_on(text: str, line: int) -> tuple[tuple[str, Span], ...]:
    """The expression on the line that decides on a size, as text and place; none where there are
    several that differ.

    What picks by the same mask elsewhere in the function follows: their sizes have to fit.  Columns
    are counted in bytes, as `ast` does.
    """
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError):
        return ()
    around: ast.AST = tree
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(lineno=begins, end_lineno=last):
                # What is inside comes later.
                around = node if begins <= line <= (last or 0) else around
    found = [node for node in ast.walk(around) if isinstance(node, ast.expr) and _decides(node)]
    here = [node for node in found if node.lineno == line]
    read = [node for node in here if not _is_written(node)]
    if len({_group(node) for node in read}) > 1:
        # What is picked beside a number may as well be an entry by its place.
        read = [node for node in read if not _is_mask(node)]
    groups = {_group(node) for node in read}
    if len(groups) != 1 or (len(read) > 1 and not _is_mask(read[0])):
        return ()
    first = read[0]
    others = [
        node for node in found if node is not first and _is_mask(node) and _group(node) in groups
    ]
    return tuple(
        (
            ast.unparse(node),
            Span(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0),
        )
        for node in (first, *others)
    )


def pick_alike(text: str, lines: Collection[int]) -> bool:
    """Whether what the lines pick is picked by one mask of one function, so that it is as much."""
    if not lines:
        return False
    first, last = min(lines), max(lines)
    each = [places_on(text, line) for line in lines]
    if not all(set(lines) <= {span.line for _, span in places} for places in each):
        return False
    if len({_masks_on(text, it) for it in lines}) != 1:
        return False
    (mask,) = _masks_on(text, first)
    parts = list(ast.walk(ast.parse(mask)))
    if any(isinstance(part, ast.Call | ast.Attribute) for part in parts):
        return False  # it may be another one each time
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    for node in ast.walk(tree_of(text)):
        if first <= getattr(node, "lineno", 0) <= last and _changes(node, names):
            return False
    return True


def _masks_on(text: str, line: int) -> frozenset[str]:
    """The masks by which something is picked on a line."""
    return frozenset(
        ast.unparse(part[2])
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.expr) and node.lineno == line and not _is_written(node)
        if (part := deciding_part(node)) is not None and part[3] == "mask"
    )


def _changes(node: ast.AST, names: Collection[str]) -> bool:
    """Whether a node binds one of the names anew, or changes what it holds in place."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return name in names
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
            return name in names
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
            return name in names and method.endswith("_")
    return False


def in_both(
    old: tuple[tuple[str, Span], ...], new: tuple[tuple[str, Span], ...]
) -> tuple[list[Span], list[Span]]:
    """The places of what stands in both texts, the first of each first."""
    if not old or not new:
        return [], []
    kept: tuple[list[Span], list[Span]] = ([old[0][1]], [new[0][1]])
    rest = list(new[1:])
    for text, span in old[1:]:
        match = next((item for item in rest if item[0] == text), None)
        if match is not None:
            rest.remove(match)
            kept[0].append(span)
            kept[1].append(match[1])
    return kept


def _decides(node: ast.expr) -> bool:
    part = deciding_part(node)
    if part is None or not any(isinstance(it, ast.Name) for it in ast.walk(part[2])):
        return False  # an entry by its place (`x.shape[-1]`)
    if isinstance(node, ast.Subscript) and _is_shape(node.value):
        return False
    inner = deciding_part(part[2])
    return inner is None or inner[3] != "number"  # `int(x.max().item())` is one


def _is_shape(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr="shape") | ast.Call(func=ast.Attribute(attr="size")):
            return True
    return False


def _group(node: ast.expr) -> str:
    """What decides: its kind and its text."""
    part = deciding_part(node)
    assert part is not None
    return f"{part[3]} {ast.unparse(part[2])}"


def _is_mask(node: ast.expr) -> bool:
    return _group(node).startswith("mask ")


def _is_written(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
