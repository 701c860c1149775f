"""Masks of lengths: ``torch.arange(lengths.max()) < lengths[:, None]``.

The longest length is the width of such a mask, and so the width of what the mask is used with.  A
call in which the two differ raises an error; only a mask of one column would be repeated.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from gbfix.analysis.trees import tree_of

#: Leave a number, or a tensor of one, as it is: conversions and moves.
_KEEPS = frozenset({"item", "long", "int", "to", "type", "cpu", "cuda", "detach", "clone"})
_LONGEST = frozenset({"max", "amax"})
_COMPARES = frozenset({"lt", "le", "gt", "ge", "less", "less_equal", "greater", "greater_equal"})


def mask_widths(text: str) -> Mapping[int, str]:
    """The lines that decide how wide a mask of lengths is, each with the text of the lengths.

    These are the lines where the longest length is found, and where ``arange`` takes it.  A text
    that is no Python has none.
    """
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found |= _in_function(list(_own(node)))
    return found


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function, without those of the functions in it."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            stack += ast.iter_child_nodes(node)


def _in_function(nodes: list[ast.AST]) -> dict[int, str]:
    bound = [
        (node.targets[0].id, node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1
        if isinstance(node.targets[0], ast.Name)
    ]
    widths = {name: longest for name, value in bound if (longest := _longest(value)) is not None}
    found: dict[int, str] = {}
    for node in nodes:
        width = _counted_to(node)
        if width is None:
            continue
        longest = widths.get(width.id) if isinstance(width, ast.Name) else _longest(width)
        if longest is None:
            continue
        value, lengths = longest
        counts = _made_of(bound, {id(node)})
        others = _made_of(
            bound, {id(it) for _, value in bound for it in ast.walk(value) if _text(it) == lengths}
        )
        if any(_compares(it, node, counts, lengths, others) for it in nodes):
            found |= dict.fromkeys(range(value.lineno, (value.end_lineno or 0) + 1), lengths)
            found[getattr(node, "lineno", 0)] = lengths
    return found


def _text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.expr) else ""


def _longest(node: ast.expr) -> tuple[ast.expr, str] | None:
    """``lengths.max()`` in what only makes a number of it, and the text of the lengths."""
    match node:
        case ast.IfExp(body=one, orelse=other):
            return _longest(one) or _longest(other)
        case ast.Call(func=ast.Name("int"), args=[inner], keywords=[]):
            return _longest(inner)
        case ast.Call(func=ast.Name("max"), args=[lengths], keywords=[]):
            return node, _text(lengths)
        case ast.Call(func=ast.Attribute(ast.Name("torch"), name), args=[lengths], keywords=[]) if (
            name in _LONGEST
        ):
            return node, _text(lengths)
        case ast.Call(func=ast.Attribute(lengths, name), args=[], keywords=[]) if name in _LONGEST:
            return node, _text(lengths)
        case ast.Call(func=ast.Attribute(inner, name)) if name in _KEEPS:
            return _longest(inner)
    return None


def _counted_to(node: ast.AST) -> ast.expr | None:
    """``n`` in ``torch.arange(n)`` and ``torch.arange(0, n)``."""
    match node:
        case ast.Call(func=ast.Attribute(ast.Name("torch"), "arange"), args=args):
            pass
        case _:
            return None
    match args:
        case [end] | [ast.Constant(0), end] | [ast.Constant(0), end, ast.Constant(1)]:
            return end.args[0] if _is_int_of_one(end) else end  # type: ignore[attr-defined]
    return None


def _is_int_of_one(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name("int"), args=[ast.Name()], keywords=[]):
            return True
    return False


def _made_of(bound: list[tuple[str, ast.expr]], parts: Collection[int]) -> frozenset[str]:
    """Names that are bound to what one of the nodes is part of, directly or through other names."""
    found: set[str] = set()
    while True:
        more = {
            name
            for name, value in bound
            if name not in found
            and any(
                id(part) in parts or (isinstance(part, ast.Name) and part.id in found)
                for part in ast.walk(value)
            )
        }
        if not more:
            return frozenset(found)
        found |= more


def _compares(
    node: ast.AST, count: ast.AST, counts: frozenset[str], lengths: str, others: frozenset[str]
) -> bool:
    """Whether the node asks which of the counted places lie below the lengths."""
    match node:
        case ast.Compare(
            left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()], comparators=[right]
        ):
            pass
        case ast.Call(func=ast.Attribute(ast.Name("torch"), name), args=[left, right]) if (
            name in _COMPARES
        ):
            pass
        case ast.Call(func=ast.Attribute(left, name), args=[right]) if name in _COMPARES:
            pass
        case _:
            return False
    sides = [list(ast.walk(left)), list(ast.walk(right))]
    counted = [any(it is count or _is_name(it, counts) for it in side) for side in sides]
    measured = [any(_text(it) == lengths or _is_name(it, others) for it in side) for side in sides]
    return (counted[0] and measured[1]) or (counted[1] and measured[0])


def _is_name(node: ast.AST, names: frozenset[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names
