"""Where the bounds of sorted rows come from, and which tensors are in the order of the rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code
from gbfix.schema import Fact

from ..control_flow.values import Share, Values


class NotSo(Exception):
    """The loop is none of this kind."""


@dataclasses.dataclass(frozen=True)
class Binding:
    """``name = value`` on a line of the block."""

    line: cst.BaseStatement
    value: cst.BaseExpression
    at: int


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What tells the bounds of the parts.

    ``kind``: counts, ends (their running sum), or offsets (with a zero in front).  ``ids`` is the
    name of what `bincount` counts, ``least`` its ``minlength``; without ids ``tensor`` is the name
    of the counts.  ``lines`` are those above the loop that make it.
    """

    kind: str
    source: str
    lines: tuple[cst.BaseStatement, ...] = ()
    ids: str = ""
    ids_text: str = ""
    least: str = ""
    tensor: str = ""


def simple_assign(
    line: cst.BaseStatement,
) -> tuple[cst.BaseAssignTargetExpression, cst.BaseExpression] | None:
    """The target and value of a line that is one assignment."""
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]
        ):
            return target, value
    return None


class Sorted:
    """The lines of a block above a loop, read backwards."""

    def __init__(self, values: Values, block: Sequence[cst.BaseStatement], at: int) -> None:
        self.values = values
        self.site = values.site
        self.block = block
        self.at = at
        self.loop = block[at]
        self._changed = {name for line in block[:at] for name in activity(line).mutates}

    def binding(self, name: str, before: int | None = None) -> Binding | None:
        """What binds a name last; None where that is not one plain line of the block."""
        for at in range((self.at if before is None else before) - 1, -1, -1):
            line = self.block[at]
            if name not in activity(line).binds:
                continue
            found = simple_assign(line)
            if found is not None and code(found[0]) == name:
                return Binding(line, found[1], at)
            return None
        return None

    def fact(self, name: str) -> Fact | None:
        """What is known of the tensor by this name, right before the loop."""
        found = self.site.locals_before(self.loop).get(name)
        if found is None:
            bound = self.binding(name)
            found = self.site.fact(bound.value) if bound is not None else None
        return found or self.values.outside(name)

    # -- order -------------------------------------------------------------------------------

    def sorts(self, name: str, before: int | None = None) -> str:
        """The name of what ``order = ids.argsort()`` sorts; else ""."""
        at = self.at if before is None else before
        for number in range(at - 1, -1, -1):
            line = self.block[number]
            if name not in activity(line).binds:
                continue
            found = simple_assign(line)
            if found is None or name in self._changed:
                return ""
            ids = self._sorted(*found, name)
            return ids if ids and not self._rebound(ids, number) else ""
        return ""

    def _sorted(self, target: cst.BaseExpression, value: cst.BaseExpression, name: str) -> str:
        pair = isinstance(target, cst.Tuple)
        if isinstance(target, cst.Tuple):
            if [code(element.value) for element in target.elements][1:] != [name]:
                return ""
        else:
            match value:
                case cst.Subscript(value=inner, slice=[element]) if code(element) == "1":
                    value, pair = inner, True
                case cst.Attribute(value=inner, attr=cst.Name("indices")):
                    value, pair = inner, True
        wanted = "sort" if pair else "argsort"
        match value:
            case cst.Call(func=func, args=[cst.Arg(value=of, keyword=None), *args]) if (
                resolve(self.site.module, func) == f"torch.{wanted}"
            ):
                pass
            case cst.Call(func=cst.Attribute(value=of, attr=cst.Name(called)), args=args) if (
                called == wanted
            ):
                pass
            case _:
                return ""
        options = [code(arg).rstrip(", ").replace(" ", "") for arg in args]
        fine = {"dim=0", "dim=-1", "0", "-1", "stable=True", "stable=False", "descending=False"}
        return self.flat(of)[0] if set(options) <= fine else ""

    def _rebound(self, name: str, since: int) -> bool:
        """Whether a name is bound or changed between a line and the loop, or in the loop."""
        above = [activity(line) for line in self.block[since + 1 : self.at]]
        loop = activity(self.loop)
        if any(name in does.binds for does in (*above, loop)) or name in loop.mutates:
            return True
        changed = {it for does in above for it in does.mutates}
        return any(it == name or not self._is_new(it, since) for it in changed)

    def _is_new(self, name: str, since: int) -> bool:
        """Whether a name was given memory of its own behind a line: what was there is not in it."""
        found = self.binding(name)
        if found is None or found.at <= since:
            return False
        return self.values.share(found.value, frozenset()) is Share.FRESH

    def flat(self, node: cst.BaseExpression) -> tuple[str, str]:
        """The name of what has all elements of an expression, and its text in one dimension."""
        match node:
            case cst.Name(name):
                fact = self.fact(name)
                if fact is None or len(fact.shape or ()) != 1:
                    return "", ""
                return self._unflattened(name), name
            case cst.Call(
                func=cst.Attribute(value=cst.Name(name), attr=cst.Name("flatten" | "ravel")),
                args=[],
            ):
                return name, code(node)
            case cst.Call(
                func=cst.Attribute(value=cst.Name(name), attr=cst.Name("view" | "reshape")),
                args=[cst.Arg(value=size)],
            ) if code(size) == "-1":
                return name, code(node)
        return "", ""

    def _unflattened(self, name: str) -> str:
        """``flat = ids.view(-1)``: both are the same ids, as long as none is changed."""
        found = self.binding(name)
        if found is None or not isinstance(found.value, cst.Call):
            return name
        base = self.flat(found.value)[0]
        return name if not base or self._rebound(base, found.at) else base

    def order_of(self, ids: str) -> str | None:
        """The name of the index that sorts the ids."""
        for line in reversed(self.block[: self.at]):
            for name in sorted(activity(line).binds):
                if self.sorts(name) == ids and not self._rebound(name, self.block.index(line)):
                    return name
        return None

    def is_along(self, name: str) -> bool:
        """Whether a tensor has a row for each of those that are sorted, in their order."""
        if self._rebound(name, self.at):
            return False
        return self._is_along(name, self.at) or self.is_own(name)

    def _is_along(self, name: str, before: int) -> bool:
        if self.sorts(name, before):
            return True
        found = self.binding(name, before)
        if found is None:
            return False
        match found.value:
            case cst.BinaryOperation(left=cst.Name(index), operator=cst.FloorDivide(), right=_):
                return self._is_along(index, found.at)
            case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(at))]):
                return self._is_index(at, found.at)
            case cst.Call(
                func=cst.Attribute(attr=cst.Name("index_select")), args=[dim, cst.Arg(value=at)]
            ) if code(dim.value) == "0":
                return self._is_index(at, found.at)
            case cst.Call(func=func, args=[cst.Arg(value=cst.Name(index)), _, mode]) if resolve(
                self.site.module, func
            ) in ("torch.div", "torch.floor_divide") and "floor" in code(mode):
                return self._is_along(index, found.at)
        return False

    def _is_index(self, at: cst.BaseExpression, before: int) -> bool:
        match at:
            case cst.Name(index):
                return self._is_along(index, before)
            case cst.BinaryOperation(left=cst.Name(index), operator=cst.FloorDivide()):
                return self._is_along(index, before)
        return False

    def is_own(self, name: str) -> bool:
        """``made = torch.empty_like(rows)``, with ``rows`` in the order of the rows."""
        found = self.binding(name)
        if found is None:
            return False
        match found.value:
            case cst.Call(func=func, args=[cst.Arg(value=cst.Name(like), keyword=None), *_]) if (
                resolve(self.site.module, func) in ("torch.empty_like", "torch.zeros_like")
            ):
                return self._is_along(like, found.at)
        return False


def bounds_of(lines: Sorted, node: cst.BaseExpression, before: int | None = None) -> Bounds:
    """What a loop reads its bounds of, followed to the ids or to the tensor of the counts."""
    before = lines.at if before is None else before
    inner = _of_device(lines, node)
    if inner is not None:
        return bounds_of(lines, inner, before)
    summed = _summed(lines, node)
    if summed is not None:
        found = bounds_of(lines, summed, before)
        if found.kind != "counts":
            raise NotSo
        return dataclasses.replace(found, kind="ends")
    padded = _padded(lines, node)
    if padded is not None:
        found = bounds_of(lines, padded, before)
        if found.kind != "ends":
            raise NotSo
        return dataclasses.replace(found, kind="offsets")
    counted = _counted(lines, node)
    if counted is not None:
        ids, least = counted
        name, text = lines.flat(ids)
        if not name or lines._rebound(name, before):
            raise NotSo
        return Bounds("counts", f"bincount({name})", ids=name, ids_text=text, least=least)
    if isinstance(node, cst.Name):
        return _named(lines, node, before)
    raise NotSo


def _named(lines: Sorted, node: cst.Name, before: int) -> Bounds:
    bound = lines.binding(node.value, before)
    if bound is not None:
        try:
            found = bounds_of(lines, bound.value, bound.at)
            return dataclasses.replace(found, lines=(*found.lines, bound.line))
        except NotSo:
            pass
    fact = lines.site.fact(bound.value) if bound is not None else lines.fact(node.value)
    if fact is None or not fact.is_tensor or len(fact.shape or ()) != 1:
        raise NotSo
    if fact.dtype not in ("torch.int64", "torch.int32"):
        raise NotSo
    return Bounds("counts", node.value, tensor=node.value)


def _of_device(lines: Sorted, node: cst.BaseExpression) -> cst.BaseExpression | None:
    match node:
        case cst.Call(
            func=cst.Attribute(
                value=inner, attr=cst.Name("tolist" | "numpy" | "cpu" | "detach" | "long" | "int")
            ),
            args=[],
        ):
            return inner
        case cst.Call(
            func=cst.Attribute(value=inner, attr=cst.Name("to")), args=[cst.Arg(value=to)]
        ):
            return inner if code(to) in ('"cpu"', "'cpu'") else None
    return None


def _summed(lines: Sorted, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What ``counts.cumsum(0)`` sums."""
    dims = ("0", "dim=0", "-1", "dim=-1", "axis=0")
    match node:
        case cst.Call(func=func, args=[cst.Arg(value=of, keyword=None), *rest]) if resolve(
            lines.site.module, func
        ) in ("torch.cumsum", "numpy.cumsum"):
            return of if all(code(arg).replace(" ", "") in dims for arg in rest) else None
        case cst.Call(func=cst.Attribute(value=of, attr=cst.Name("cumsum")), args=rest):
            return of if all(code(arg).replace(" ", "") in dims for arg in rest) else None
    return None


def _padded(lines: Sorted, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What stands behind one zero: ``[0] + ends``, ``F.pad(ends, (1, 0))``, ``torch.cat``."""
    match node:
        case cst.BinaryOperation(left=cst.List() as zero, operator=cst.Add(), right=of):
            return of if code(zero) == "[0]" else None
        case cst.List(elements=[cst.Element(cst.Integer("0")), cst.StarredElement(value=of)]):
            return of
        case cst.Call(func=func, args=[cst.Arg(value=of, keyword=None), cst.Arg(value=by)]) if (
            resolve(lines.site.module, func) or ""
        ).endswith("functional.pad"):
            return of if code(by).replace(" ", "") in ("(1,0)", "[1,0]") else None
        case cst.Call(func=func, args=[cst.Arg(value=parts), *rest]) if resolve(
            lines.site.module, func
        ) in ("torch.cat", "torch.concat") and all(code(arg.value) == "0" for arg in rest):
            match parts:
                case cst.List(elements=joined) | cst.Tuple(elements=joined) if len(joined) == 2:
                    first, behind = joined[0].value, joined[1].value
                    text = code(first)
                    if "zeros(1" in text or "zeros((1," in text:
                        return behind
    return None


def _counted(lines: Sorted, node: cst.BaseExpression) -> tuple[cst.BaseExpression, str] | None:
    """What ``bincount`` counts, and how many counts it gives at least."""
    match node:
        case cst.Call(func=func, args=[cst.Arg(value=of, keyword=None), *args]) if (
            resolve(lines.site.module, func) == "torch.bincount"
        ):
            pass
        case cst.Call(func=cst.Attribute(value=of, attr=cst.Name("bincount")), args=args):
            pass
        case _:
            return None
    named = [arg.keyword.value if arg.keyword is not None else "" for arg in args]
    if named not in ([], ["minlength"]):
        return None
    return of, code(args[0].value) if args else ""
