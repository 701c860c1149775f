"""Windows whose size is known, at a place that data tells: ``x[:, start:start + size]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gbfix.analysis.activity import parameters_of
from gbfix.analysis.scopes import resolve
from gbfix.analysis.torch_names import FULL_REDUCTIONS
from gbfix.analysis.tree import code, walk
from gbfix.rewriting.names import bindings

from .flow_index import _catches_index_errors, _is_target
from .nested import Atom

if TYPE_CHECKING:
    from .flow_uses import Uses

_OUTSIDE = (
    "if the slice reaches beyond the tensor, the original returns fewer rows; the patch raises an"
    " error or takes rows from the end"
)
_WRITTEN = (
    "a window that does not lie within what is written raises another error, or one where the"
    " original writes nothing"
)
_LOOKS = (cst.BinaryOperation, cst.Comparison, cst.ComparisonTarget, cst.UnaryOperation)


def window(uses: Uses, node: cst.Subscript) -> bool:
    """Take the rows of a window by their numbers; False if no kept number bounds a slice.

    ``x[:, s:s + n]`` is ``x.index_select(1, s + torch.arange(n, device=x.device))``.  That is a
    copy, where a slice is a view.
    """
    from .flow import Stopped

    kept = [
        part.slice
        for part in node.slice
        if isinstance(part.slice, cst.Slice) and uses.flow.is_kept(part.slice)
    ]
    if not kept or _is_target(uses, node):
        return False
    held = uses.fact(node.value)
    if held is None or not held.is_tensor:
        raise Stopped("a slice of something else than a tensor")
    if not isinstance(node.value, cst.Name | cst.Attribute):
        raise Stopped("a slice of something without a name")
    if uses.flow.changed_in_place and not _only_looked_at(uses, node):
        raise Stopped("bounds a slice that is kept, and something is changed in place")
    owner, torch = code(node.value), uses.flow.torch
    parts: list[str | cst.CSTNode] = [owner]
    axis, drawn = 0, True
    for position, part in enumerate(node.slice):
        if isinstance(part.slice, cst.Index):
            if not isinstance(part.slice.value, cst.Ellipsis) or position:
                raise Stopped("a slice beside an index")
            axis = 1 - len(node.slice)  # counted from the end, whatever stands before
            continue
        if isinstance(part.slice, cst.Slice) and part.slice in kept:
            lower, size = _bounds(uses, part.slice)
            number = uses.flow.arithmetic.number(lower)
            if number is None or not number.kept or number.kind != "int":
                raise Stopped("bounds a slice, whose size would depend on the data")
            drawn = drawn and _is_drawn(uses, lower)
            uses.met += 1
            uses.commit(number)
            parts += [f".index_select({axis}, ", lower]
            parts.append(f" + {torch}.arange({size}, device={owner}.device))")
        elif code(part.slice).strip() != ":":
            raise Stopped("a slice beside another")
        axis += 1
    sure = drawn and not _catches_index_errors(uses)
    (uses.limits if sure else uses.doubts).append(_OUTSIDE)
    uses.edits[node] = parts
    return True


def written_window(uses: Uses, statement: cst.Assign) -> bool:
    """Write rows by their numbers: ``x[:, s:s + n] = y``; False where it is no such window.

    A slice that begins below zero counts from the end, and is mostly empty then: there is a check.
    """
    from .flow import Stopped

    target = statement.targets[0].target
    line = uses.site.parent(statement)
    alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    if not isinstance(target, cst.Subscript) or len(statement.targets) != 1 or not alone:
        return False
    kept = [
        part.slice
        for part in target.slice
        if isinstance(part.slice, cst.Slice) and uses.flow.is_kept(part.slice)
    ]
    held, given = uses.fact(target.value), uses.fact(statement.value)
    plain = isinstance(target.value, cst.Name | cst.Attribute)
    if len(kept) != 1 or not plain or uses.flow.is_kept(statement.value):
        return False
    if (
        held is None
        or not held.is_tensor
        or given is None
        or not given.is_tensor
        or not given.shape
    ):
        return False
    if any(part.slice is not kept[0] and code(part.slice).strip() != ":" for part in target.slice):
        return False
    owner, torch = code(target.value), uses.flow.torch
    if owner in {
        code(it) for it in walk(statement.value) if isinstance(it, cst.Name | cst.Attribute)
    }:
        return False
    try:
        lower, size = _bounds(uses, kept[0])
    except Stopped:
        return False
    number = uses.flow.arithmetic.number(lower)
    if number is None or not number.kept or number.kind != "int":
        return False
    uses.met += 1
    uses.commit(number)
    before = ":, " * [part.slice for part in target.slice].index(kept[0])
    parts: list[str | cst.CSTNode | Atom] = []
    if number.low is None or number.low < 0:
        span = uses.site.span(statement)
        indent = uses.site.source.splitlines()[span.line - 1][: span.column]
        newline = uses.site.module.default_newline
        says = f'"`{code(lower)}` is below zero"'
        parts += [f"{torch}._assert_async(", lower, f" >= 0, {says}){newline}{indent}"]
    parts += [f"{owner}[{before}", lower, f" + {torch}.arange({size}, device={owner}.device)] = "]
    # A slice converts what is written to it; rows by their numbers do not, in no call.
    parts += [Atom(statement.value), f".to({owner}.dtype)"]
    uses.edits[statement] = tuple(parts)
    uses.limits.append(_WRITTEN)
    return True


def _only_looked_at(uses: Uses, node: cst.Subscript) -> bool:
    """Whether something new is made of the window at once."""
    holder = uses.site.parent(node)
    if isinstance(holder, cst.Attribute):
        return holder.attr.value in FULL_REDUCTIONS
    return isinstance(holder, _LOOKS)


def _is_drawn(uses: Uses, lower: cst.BaseExpression) -> bool:
    """Whether the number is drawn from 0 on (``torch.randint``): the program sees to its end."""
    if isinstance(lower, cst.Name):
        match _binding(uses, lower.value):
            case cst.SimpleStatementLine(body=[cst.Assign(targets=[_], value=value)]):
                lower = value
    if lower in uses.flow.drawn:
        low = uses.flow.drawn[lower].low
        return low is not None and low >= 0
    if lower not in uses.flow.reads:
        return False
    inner: cst.BaseExpression = lower
    while isinstance(inner, cst.Call) and resolve(uses.site.module, inner.func) != "torch.randint":
        if isinstance(inner.func, cst.Attribute) and not inner.args:
            inner = inner.func.value
        elif code(inner.func) == "int" and len(inner.args) == 1:
            inner = inner.args[0].value
        else:
            return False
    match inner:
        case cst.Call(args=[cst.Arg(value=cst.Integer("0"), keyword=None), _, _, *_]):
            return True
    return False


def _bounds(uses: Uses, part: cst.Slice) -> tuple[cst.BaseExpression, str]:
    """Where the window begins, and the text of its size, which no data decides."""
    from .flow import Stopped

    lower, upper = part.lower, part.upper
    if lower is not None and part.step is None:
        if isinstance(upper, cst.Name):
            upper = _bound_to(uses, upper.value, lower)
        match upper:
            case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
                for one, other in ((left, right), (right, left)):
                    fact = uses.fact(other)
                    whole = isinstance(other, cst.Integer) or (
                        fact is not None and fact.kind == "int"
                    )
                    if code(one) == code(lower) and whole and not uses.flow.is_kept(other):
                        return lower, code(other)
    raise Stopped("bounds a slice, whose size would depend on the data")


def _bound_to(uses: Uses, name: str, lower: cst.BaseExpression) -> cst.BaseExpression | None:
    """The one value that the function binds to a name, made of what ``lower`` is made of."""
    binding = _binding(uses, name)
    match binding:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[_], value=value)]):
            pass
        case _:
            return None
    site, function = uses.site, uses.flow.function
    given = {*parameters_of(function.params)}
    if name in given or any(
        bindings(uses.site, part.value) and (part.value in given or not _binding(uses, part.value))
        for part in walk(value)
        if isinstance(part, cst.Name)
    ):
        return None
    block = list(site.block_of(binding))
    for part in walk(lower):
        if not isinstance(part, cst.Name) or part.value not in uses.flow.names:
            continue
        first = _binding(uses, part.value)
        if first is None or first not in block or block.index(first) >= block.index(binding):
            return None
    return value


def _binding(uses: Uses, name: str) -> cst.CSTNode | None:
    """The statement that binds the name, where only one does."""
    found = bindings(uses.site, name)
    return found[0] if len(found) == 1 else None
