"""Where the columns that a cut takes off a tensor would go, were they kept as zeros."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import code, statements_of, walk, words
from gbfix.codemod import Site

from ..control_flow.refusal import Refusal
from ..control_flow.texts import number_of
from .flow import torch_name

#: Functions of each element that keep a zero, with finite derivatives there.
_KEEPS_ZERO = words("neg clone contiguous conj float double relu abs square sin tanh")
#: Functions whose derivative at zero has no end, or which have no value there.
_SHARP = words("sqrt rsqrt log reciprocal")


@dataclasses.dataclass(frozen=True)
class Cut:
    """``name[..., :number]``: which axis it cuts, counted from the end, of how many."""

    node: cst.Subscript
    name: str
    number: str
    axis: int
    dims: int
    is_bool: bool

    def masked(self, beyond: str, fill: int | None) -> str:
        if fill is None:
            return self.name
        mask = beyond if self.axis == -1 else f"{beyond}[:{', None' * (-1 - self.axis)}]"
        return f"{self.name}.masked_fill({mask}, {fill})"


def cut_of(site: Site, node: cst.Subscript) -> Cut | None:
    """The cut of a name's tensor by a name, in one axis; None for other subscripts."""
    if not isinstance(node.value, cst.Name):
        return None
    name = node.value.value
    name = node.value.value
    fact = site.fact(node.value)
    for statement in (site.statement_of(node), site.statement):
        fact = fact or site.locals_before(statement).get(name)
    if fact is None or not fact.is_tensor or fact.shape is None:
        return None
    dims = len(fact.shape)
    texts = [code(element.slice) for element in node.slice]
    (place, number), *others = [
        (index, element.slice.upper.value)
        for index, element in enumerate(node.slice)
        if isinstance(element.slice, cst.Slice)
        and element.slice.lower is None
        and element.slice.step is None
        and isinstance(element.slice.upper, cst.Name)
    ] or [(-1, "")]
    rest = [text for index, text in enumerate(texts) if index != place]
    if place < 0 or others:
        return None
    if "..." in rest:
        if rest[0] != "..." or set(rest[1:]) - {":"} or place == 0:
            return None
        axis = place - len(texts)
    elif set(rest) <= {":"} and len(texts) <= dims:
        axis = place - dims
    else:
        return None
    return Cut(node, name, number, axis, dims, fact.dtype == "torch.bool")


@dataclasses.dataclass(frozen=True)
class _Value:
    """A tensor with columns that were cut off: where they are, and whether they hold zeros."""

    axes: frozenset[int]
    dims: int
    zero: bool
    roots: frozenset[str]


class Columns:
    """Follows tensors whose columns are kept, from the cuts to where they are multiplied out."""

    def __init__(self, site: Site, cuts: Sequence[Cut], *, started: bool) -> None:
        self._site = site
        self._cuts = {id(cut.node): cut for cut in cuts}
        self._named = list(cuts) if started else []
        self._torch = torch_name(site)
        self._sharp: set[str] = set()
        self._state: dict[str, _Value] = {}

    def fills(self, statements: Sequence[cst.CSTNode]) -> dict[str, int | None]:
        """What to fill each cut tensor's columns with (None: nothing), or `Refusal`."""
        for _ in range(2):
            known = set(self._sharp)
            self._state = {cut.name: self._start(cut) for cut in self._named}
            self._block(statements)
            if known == self._sharp:
                break
        return {
            cut.name: None if cut.is_bool else int(cut.name in self._sharp)
            for cut in self._cuts.values()
        }

    def _start(self, cut: Cut) -> _Value:
        zero = cut.name not in self._sharp and not cut.is_bool
        return _Value(frozenset({cut.axis}), cut.dims, zero, frozenset({cut.name}))

    # -- statements --------------------------------------------------------------------------

    def _block(self, statements: Sequence[cst.CSTNode]) -> None:
        for statement in statements:
            if not self._touches(statement):
                if activity(statement).bound & set(self._state):
                    raise Refusal("a cut tensor's name is bound anew")
                continue
            match statement:
                case cst.SimpleStatementLine(
                    body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]
                ):
                    self._bind(name, self._value(value))
                case cst.SimpleStatementLine(
                    body=[cst.Return(value=cst.BaseExpression() as value)]
                ):
                    self._returned(value)
                case cst.If(test=test):
                    self._choice(statement, test)
                case _:
                    raise Refusal(f"`{code(statement).strip().splitlines()[0]}` reads a cut tensor")

    def _bind(self, name: str, value: _Value | None) -> None:
        if value is None or not value.axes:
            self._state.pop(name, None)
        else:
            self._state[name] = value

    def _choice(self, node: cst.If, test: cst.BaseExpression) -> None:
        if self._touches(test):
            raise Refusal(f"`{code(test)}` reads a cut tensor")
        before = dict(self._state)
        self._block(statements_of(node.body))
        one, self._state = self._state, before
        match node.orelse:
            case cst.Else(body=body):
                self._block(statements_of(body))
            case cst.If() as chained:
                self._choice(chained, chained.test)
        for name, value in one.items():
            other = self._state.get(name)
            if other is None or other.axes != value.axes or other.dims != value.dims:
                raise Refusal(f"`{name}` is another tensor in one branch")
            zero = value.zero and other.zero
            self._state[name] = dataclasses.replace(
                value, zero=zero, roots=value.roots | other.roots
            )
        if set(self._state) - set(one):
            raise Refusal("a branch binds a cut tensor's name")

    def _returned(self, node: cst.BaseExpression) -> None:
        parts = (
            [element.value for element in node.elements] if isinstance(node, cst.Tuple) else [node]
        )
        for part in parts:
            value = self._value(part)
            if value is not None and value.axes:
                raise Refusal("a result has the cut dimension")

    def _touches(self, node: cst.CSTNode) -> bool:
        return any(
            (isinstance(inner, cst.Name) and inner.value in self._state and self._is_data(inner))
            or id(inner) in self._cuts
            for inner in walk(node)
        )

    def _is_data(self, name: cst.Name) -> bool:
        """Whether a name is read for more than its tensor's dtype or device."""
        holder = self._site.parent(name)
        return not (
            isinstance(holder, cst.Attribute)
            and holder.value is name
            and holder.attr.value in ("dtype", "device")
        )

    # -- expressions -------------------------------------------------------------------------

    def _value(self, node: cst.BaseExpression) -> _Value | None:
        """The columns of an expression; None where it has none of those that were cut off."""
        cut = self._cuts.get(id(node))
        if cut is not None:
            if cut.name in self._state:
                raise Refusal(f"`{cut.name}` is cut twice")
            return self._start(cut)
        if not self._touches(node):
            return None
        match node:
            case cst.Name(name):
                return self._state[name]
            case cst.BinaryOperation(operator=cst.MatrixMultiply()):
                return self._product(node.left, node.right)
            case cst.BinaryOperation():
                return self._elementwise(node)
            case cst.UnaryOperation(operator=cst.Minus()):
                return self._value(node.expression)
            case cst.Attribute(value=inner, attr=cst.Name("mT" | "mH" | "T" | "H")):
                return self._transposed(self._value(inner), -2, -1)
            case cst.Subscript():
                return self._widened(node)
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(name)), args=args):
                values = [arg.value for arg in args]
                if any(arg.star or arg.keyword for arg in args):
                    raise Refusal(f"what `{code(node)}` does with columns is not known")
                if code(receiver) == self._torch and values:
                    receiver, *values = values
                return self._called(node, name, receiver, values)
        raise Refusal(f"what `{code(node)}` does with columns is not known")

    def _called(
        self,
        node: cst.Call,
        name: str,
        receiver: cst.BaseExpression,
        rest: Sequence[cst.BaseExpression],
    ) -> _Value | None:
        if name in ("matmul", "mm", "bmm") and len(rest) == 1:
            return self._product(receiver, rest[0])
        value = self._value(receiver)
        numbers = [number_of(item) for item in rest]
        if value is None:
            raise Refusal(f"what `{code(node)}` does with columns is not known")
        match name, numbers:
            case ("unsqueeze", [int(place)]):
                place = place if place < 0 else place - value.dims - 1
                axes = {axis - 1 if place >= axis else axis for axis in value.axes}
                return dataclasses.replace(value, axes=frozenset(axes), dims=value.dims + 1)
            case ("transpose", [int(one), int(other)]):
                return self._transposed(value, one, other)
            case ("t", []) if value.dims == 2:
                return self._transposed(value, -2, -1)
            case ("diag" | "diag_embed", []) if value.axes == {-1} and (
                value.dims == 1 or name == "diag_embed"
            ):
                # Off the diagonal are zeros, on it what was there.
                return dataclasses.replace(value, axes=frozenset({-1, -2}), dims=value.dims + 1)
            case ("sum", []):
                self._counts_nothing(value)
                return None
            case ("sum", [int(place)]):
                place = place if place < 0 else place - value.dims
                if place in value.axes:
                    self._counts_nothing(value)
                axes = {axis + 1 if axis < place else axis for axis in value.axes - {place}}
                return dataclasses.replace(value, axes=frozenset(axes), dims=value.dims - 1)
            case ("where", _) if len(rest) == 2 and self._is_fit(rest[0], value):
                if self._touches(rest[1]):
                    raise Refusal(f"what `{code(node)}` does with columns is not known")
                return dataclasses.replace(value, zero=False)
            case (_, []) if name in _KEEPS_ZERO:
                return value
            case (_, []) if name in _SHARP:
                self._sharp |= value.roots
                return value if name == "sqrt" else dataclasses.replace(value, zero=False)
        raise Refusal(f"what `{code(node)}` does with columns is not known")

    def _is_fit(self, mask: cst.BaseExpression, value: _Value) -> bool:
        """Whether a mask has the same columns: it was cut as well."""
        other = self._value(mask) if isinstance(mask, cst.Name) else None
        return other is not None and other.axes == value.axes

    def _elementwise(self, node: cst.BinaryOperation) -> _Value:
        left, right = self._value(node.left), self._value(node.right)
        if left is not None and right is not None and left.axes != right.axes:
            raise Refusal(f"`{code(node)}` joins tensors that are cut in several dimensions")
        known = [value for value in (left, right) if value is not None]
        zeros = [value is not None and value.zero for value in (left, right)]
        dims = max(value.dims for value in known)
        roots = frozenset().union(*(value.roots for value in known))
        for other, value in ((node.right, left), (node.left, right)):
            if value is not None and not self._touches(other) and number_of(other) is None:
                self._check_plain(other)
        match node.operator:
            case cst.Add() | cst.Subtract():
                zero = all(zeros)
            case cst.Multiply():
                zero = any(zeros)
            case cst.Divide():
                zero = zeros[0]
                if right is not None:
                    self._sharp |= right.roots
            case _:
                raise Refusal(f"what `{code(node)}` does with columns is not known")
        return _Value(known[0].axes, dims, zero, roots)

    def _check_plain(self, node: cst.BaseExpression) -> None:
        """Refuse an operand that may be as wide as what was cut: it would not have fitted."""
        fact = self._site.fact(node)
        if fact is None or (fact.is_tensor and fact.shape != ()):
            raise Refusal(f"`{code(node)}` is not known to be one number")

    def _product(self, one: cst.BaseExpression, other: cst.BaseExpression) -> _Value | None:
        left, right = self._value(one), self._value(other)
        dims = [value.dims for value in (left, right) if value is not None]
        if min(dims) < 2:
            raise Refusal("a matrix product has a vector as a factor")
        inner = left is not None and -1 in left.axes
        if inner != (right is not None and -2 in right.axes):
            raise Refusal("a matrix product has a factor that is not cut")
        if inner and not (left and left.zero) and not (right and right.zero):
            raise Refusal("neither factor of a matrix product is zero there")
        axes: set[int] = set()
        zero = True
        for value, axis in ((left, -2), (right, -1)):
            if value is not None and axis in value.axes:
                axes.add(axis)
                zero = zero and value.zero
            if value is not None and value.axes - {-1, -2}:
                raise Refusal("a batch is cut")
        roots = frozenset().union(*(v.roots for v in (left, right) if v is not None))
        return _Value(frozenset(axes), max(dims), zero, roots) if axes else None

    def _transposed(self, value: _Value | None, one: int, other: int) -> _Value | None:
        if value is None:
            return None
        one, other = (item if item < 0 else item - value.dims for item in (one, other))
        swap = {one: other, other: one}
        return dataclasses.replace(value, axes=frozenset(swap.get(a, a) for a in value.axes))

    def _widened(self, node: cst.Subscript) -> _Value | None:
        """``t[:, None]`` and ``t[..., None, :]``: a new axis."""
        value = self._value(node.value)
        texts = [code(element.slice) for element in node.slice]
        if value is None or set(texts) - {":", "None", "..."} or texts.count("None") != 1:
            raise Refusal(f"what `{code(node)}` does with columns is not known")
        place = texts.index("None") - len(texts)
        if "..." not in texts and len(texts) != value.dims + 1:
            raise Refusal(f"what `{code(node)}` does with columns is not known")
        axes = {axis - 1 if place >= axis else axis for axis in value.axes}
        return dataclasses.replace(value, axes=frozenset(axes), dims=value.dims + 1)

    def _counts_nothing(self, value: _Value) -> None:
        if not value.zero:
            raise Refusal("a sum would add values that are not zero")
