"""Indices and slices that hold kept numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from gbfix.analysis.tree import code, walk

from .nested import Atom, Parts

if TYPE_CHECKING:
    from .flow_uses import Uses


def indexed(uses: Uses, node: cst.Subscript) -> None:
    """``x[i]`` is ``x[i[None]].squeeze(0)``: an index with a dimension stays in the graph.

    Indices that are out of range fail, and negative ones count from the end, as before.
    """
    from .flow import Stopped

    if node in uses.seen:
        return  # several numbers in one index
    uses.seen.add(node)
    held = uses.fact(node.value)
    if held is None or not held.is_tensor or held.shape is None:
        raise Stopped("an index into something else than a tensor")
    axis: int | None = None
    before = 0  # dimensions that stand before
    for place, part in enumerate(node.slice):
        if not isinstance(part.slice, cst.Index):
            if code(part.slice) != ":":
                raise Stopped("an index beside a slice")
            before += 1
            continue
        value = part.slice.value
        if isinstance(value, cst.Ellipsis):
            if place != 0 or len(node.slice) != 2:
                raise Stopped("an index beside an ellipsis")
            before = len(held.shape) - 1
            continue
        number = uses.flow.arithmetic.number(value)
        if number is None:
            raise Stopped("an index beside something else")
        if number.kept:
            if axis is not None and axis != before:
                raise Stopped("indices on both sides of a slice")
            axis = before
            edit = uses.edits.get(value, (value,))
            uses.edits[value] = (*(_closed(edit, value)), "[None]")
        elif axis is None and before:
            raise Stopped("an index beside another")
    assert axis is not None
    if _catches_index_errors(uses):
        uses.doubts.append(_OUT_OF_RANGE)
    else:
        uses.limits.append(_OUT_OF_RANGE)
    if not _is_target(uses, node):
        uses.edits[node] = (node, f".squeeze({axis})")
        return
    assign = uses.site.parent(uses.site.parent(node) or node)
    if isinstance(assign, cst.Assign):
        _cast_value(uses, node, assign)


_OUT_OF_RANGE = (
    "compiled by inductor, an index that is out of range raises RuntimeError, where the original"
    " raises IndexError"
)


def _catches_index_errors(uses: Uses) -> bool:
    """Whether a handler of the project names the error (and no class that both errors have)."""
    return any(
        re.search(r"\b(?:IndexError|LookupError)\b", text)
        for text in (uses.site.source, *uses.site.sources.values())
    )


def _cast_value(uses: Uses, node: cst.Subscript, assign: cst.Assign) -> None:
    """``x[i] = y`` converts ``y``; with an index that has a dimension it must be converted."""
    from .flow import Stopped

    number = uses.flow.arithmetic.number(assign.value)
    if number is not None and not number.kept:
        return
    if not isinstance(node.value, cst.Name | cst.Attribute) or len(assign.targets) != 1:
        raise Stopped("what is written to has no plain name")
    if number is None:
        uses.edits[assign.value] = (Atom(assign.value), f".to({code(node.value)}.dtype)")


def _closed(parts: Parts, node: cst.CSTNode) -> Parts:
    if len(parts) == 1 and parts[0] is node:
        return (Atom(node),)
    tight = isinstance(parts[0], Atom) or (isinstance(parts[0], str) and parts[0].endswith("("))
    return parts if tight else ("(", *parts, ")")


def _is_target(uses: Uses, node: cst.Subscript) -> bool:
    holder = uses.site.parent(node)
    return isinstance(holder, cst.AssignTarget) or (
        isinstance(holder, cst.AugAssign) and holder.target is node
    )


def assigned_slice(uses: Uses, statement: cst.Assign) -> bool:
    """Write to a slice with kept bounds through a mask: ``x[:, n:] = 0``; False if it is none.

    ``y[a:b] = x[a:b]`` is ``y.copy_(torch.where(mask, x, y))``.
    """
    from .flow import Stopped

    target = statement.targets[0].target
    if not isinstance(target, cst.Subscript) or not any(
        isinstance(part.slice, cst.Slice) and uses.flow.is_kept(part.slice) for part in target.slice
    ):
        return False
    held = uses.fact(target.value)
    owner = code(target.value)
    if len(statement.targets) != 1 or held is None or not held.is_tensor or held.shape is None:
        raise Stopped("a slice of something else than a tensor")
    if not isinstance(target.value, cst.Name | cst.Attribute):
        raise Stopped("a slice of something without a name")
    mask, view = _mask(uses, target, owner, len(held.shape))
    value = statement.value
    if _same_place(target, value):
        assert isinstance(value, cst.Subscript)
        if view != owner:
            raise Stopped("a slice beside an index")
        other = uses.fact(value.value)
        if other is None or other.shape != held.shape or other.dtype != held.dtype:
            raise Stopped("slices of two tensors that are not alike")
        if not _made_like(uses, owner, code(value.value)):
            uses.limits.append(
                f"the patch assumes that `{owner}` and `{code(value.value)}` have the same shape"
                " and dtype, as in the recorded run"
            )
        torch = uses.flow.torch
        uses.edits[statement] = (
            f"{owner}.copy_({torch}.where(",
            *mask,
            f", {code(value.value)}, {owner}))",
        )
        return True
    number = uses.flow.arithmetic.number(value)
    plain = isinstance(value, cst.Name) and value.value in ("True", "False")
    if number is None and not plain:
        fact = uses.fact(value)
        if fact is None or not fact.is_tensor or fact.shape != ():
            raise Stopped("a slice whose size depends on the data is given many values")
    if number is not None and number.kept:
        uses.commit(number)
    uses.edits[statement] = (f"{view}.masked_fill_(", *mask, ", ", value, ")")
    return True


def _mask(
    uses: Uses, target: cst.Subscript, owner: str, width: int
) -> tuple[list[str | cst.CSTNode | Atom], str]:
    """The mask of the slices, and the view of the tensor that it belongs to."""
    from .flow import Stopped

    indices = sum(isinstance(part.slice, cst.Index) for part in target.slice)
    mask: list[str | cst.CSTNode | Atom] = []
    kept_parts: list[str] = []
    place = 0
    axis = -1
    for position, part in enumerate(target.slice):
        axis += 1
        if isinstance(part.slice, cst.Index) and isinstance(part.slice.value, cst.Ellipsis):
            if indices != 1 or position:
                raise Stopped("a slice beside an ellipsis")
            axis = width - len(target.slice)
            place, indices = axis + 1, 0
            kept_parts += [":"] * (axis + 1)
            continue
        if isinstance(part.slice, cst.Index):
            fact = uses.fact(part.slice.value)
            if fact is None or fact.kind != "int" or uses.flow.is_kept(part.slice):
                raise Stopped("a slice beside an index")
            kept_parts.append(code(part.slice))
            continue
        if not isinstance(part.slice, cst.Slice) or not uses.flow.is_kept(part.slice):
            kept_parts.append(code(part.slice))
            if code(part.slice) != ":":
                raise Stopped("a slice beside another")
            place += 1
            continue
        if part.slice.step is not None:
            raise Stopped("a slice with a step")
        trailing = width - indices - place - 1
        behind = "[" + ", ".join([":"] + ["None"] * trailing) + "]" if trailing else ""
        size = f"{owner}.shape[{axis}]"
        line = f"{uses.flow.torch}.arange({size}, device={owner}.device){behind}"
        for sign, bound in ((">=", part.slice.lower), ("<", part.slice.upper)):
            if bound is None:
                continue
            mask += [" & "] if mask else []
            mask += [f"({line} {sign} ", *_bound(uses, bound, size), ")"]
        kept_parts.append(":")
        place += 1
    while kept_parts and kept_parts[-1] == ":":
        kept_parts.pop()
    if mask.count(" & ") == 0:
        first, last = mask[0], mask[-1]
        assert isinstance(first, str) and isinstance(last, str)
        mask = [first[1:], *mask[1:-1], *([last[:-1]] if last[:-1] else [])]
    return mask, f"{owner}[{', '.join(kept_parts)}]" if kept_parts else owner


def _bound(uses: Uses, bound: cst.BaseExpression, size: str) -> list[str | cst.CSTNode | Atom]:
    """A bound of a slice as a position: one below zero counts from the end."""
    from .flow import Stopped

    number = uses.flow.arithmetic.number(bound)
    if number is None or number.kind != "int":
        raise Stopped("a bound that is no number")
    if number.kept:
        uses.commit(number)
    if number.low is not None and number.low >= 0:
        return [bound]
    if not number.kept:
        raise Stopped("a bound that may count from the end")
    torch = uses.flow.torch
    return [f"{torch}.where(", bound, " < 0, ", bound, f" + {size}, ", bound, ")"]


def _same_place(target: cst.Subscript, value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Subscript) and [code(part.slice) for part in value.slice] == [
        code(part.slice) for part in target.slice
    ]


def _made_like(uses: Uses, owner: str, other: str) -> bool:
    """Whether the one tensor was made like the other: ``y = torch.zeros_like(x)``."""
    for node in walk(uses.flow.function.body):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                if name == owner and code(value).rstrip(")").endswith(
                    (f"_like({other}", f"{other}.clone(")
                ):
                    return True
    return False
