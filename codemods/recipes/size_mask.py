"""Masks that are made of a size alone: the diagonal, what lies beside it, a triangle."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.binding import times_bound
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.project import mentions
from gbfix.schema import Fact

from ..api.splice import Splice
from ..data_dependent.flow import torch_name

_X, _MASK = tensor(4, 4), tensor(4, 4, dtype="torch.bool")
_FACTS = {"x": _X, "mask": _MASK, "~mask": _MASK}
_MADE = "mask = torch.eye(n, device=x.device, dtype=torch.bool)"
#: What a class of the project's may define, by which its tensors are indexed otherwise.
_OVERRIDES = r"\bdef (?:__getitem__|__torch_function__|view|diagonal)\b"
_OTHER_SHAPE = (
    "A tensor of another shape with as many elements as the mask raises no error any more."
)
_TYPES = ("torch.Tensor", "torch.nn.parameter.Parameter")
_MASKS = ("torch.bool", "torch.uint8")
_TRIANGLES = ("triu", "tril")
#: Methods that keep which elements hold: conversions, and moves to a device.
_KEEPING = frozenset({"bool", "byte", "to", "cuda", "cpu", "contiguous", "clone", "detach"})
_READING = frozenset({"float", "int", "long", "sum", "shape", "size", "device", "dtype", "ndim"})
_DEVICES = re.compile(r"(?:\w+\.)*device|torch\.bool|torch\.uint8")


def _source(*lines: str, head: str = "def f(x, n):") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\n{head}\n{body}"


@dataclasses.dataclass(frozen=True)
class _Mask:
    """Which elements of a square matrix hold: ``diagonal``, ``others``, ``triu`` or ``tril``."""

    kind: str
    #: How many rows there are, if a name or a number says it.
    size: str = ""
    offset: str = "0"

    def inverted(self) -> _Mask | None:
        other = {"diagonal": "others", "others": "diagonal"}.get(self.kind)
        return dataclasses.replace(self, kind=other) if other else None


class SizeMask(Codemod):
    """*What it does.*  Where a mask is made of a size alone, takes the elements by their places:
    ``x[torch.eye(n, dtype=torch.bool)]`` becomes the diagonal, ``x[~mask]`` of the same mask all
    that lies beside it, and a triangle is indexed by ``torch.triu_indices``.

    Dynamo takes the number of elements that a mask selects for data, although the size says it.

    *When it applies.*  A square matrix is indexed, or given to ``masked_select``, by a mask that
    the function makes by ``torch.eye``, or by ``torch.triu`` or ``torch.tril`` of ones.

    *Fix safety.*  Safe: the same elements come in the same order, in a tensor of their own.
    A matrix of another size than the mask raises an error as before.

    *Refuses.*  Masks that are bound twice or written into, other tensors than square matrices, and
    assignments by a mask, for which ``torch.where`` is the better form.
    """

    name = "size-mask"
    codes = ("GB0036", "data-dependent-guard", "data-dependent-other")
    examples = (
        Example(
            _source(_MADE, "return x[mask].mean(), x[~mask].view(n, -1).logsumexp(1)"),
            _source(
                _MADE,
                "return x.view(n, n).diagonal().clone().mean(), "
                "x.flatten()[1:].view(n - 1, n + 1)[:, :-1]"
                ".clone().flatten().view(n, -1).logsumexp(1)",
            ),
            at="x[mask]",
            facts=_FACTS,
            title="the diagonal and the others",
        ),
        Example(
            _source(
                "mask = torch.triu(torch.ones(n, n), diagonal=1).bool()",
                "return torch.masked_select(x, mask).mean()",
            ),
            _source(
                "mask = torch.triu(torch.ones(n, n), diagonal=1).bool()",
                "return x.view(n, n)[torch.triu_indices(n, n, 1, device=x.device).unbind()].mean()",
            ),
            at="torch.masked_select(x, mask)",
            facts=_FACTS,
            title="a triangle",
        ),
    )
    near_misses = (
        NearMiss(
            _source(_MADE, "return x[mask]") + "\n\nclass T(torch.Tensor):\n"
            "    def __getitem__(self, key): ...\n",
            at="x[mask]",
            facts=_FACTS,
            why="tensors that are indexed otherwise",
        ),
        NearMiss(
            _source(_MADE, "return x[mask]"),
            at="x[mask]",
            facts={**_FACTS, "x": tensor(4, 4, 3)},
            why="rows, not elements",
        ),
        NearMiss(
            _source("mask = torch.eye(n)", "return x[mask]"),
            at="x[mask]",
            facts={**_FACTS, "mask": tensor(4, 4)},
            why="no mask",
        ),
        *(
            NearMiss(_source(*lines), at="x[mask]", facts=_FACTS, why=why)
            for lines, why in (
                ((_MADE, "mask = mask | (x > 0)", "return x[mask]"), "bound twice"),
                ((_MADE, "mask[0] = False", "return x[mask]"), "written into"),
                ((_MADE, "mask.fill_(True)", "return x[mask]"), "filled"),
                ((_MADE, "g(mask)", "return x[mask]"), "handed on"),
                ((_MADE, "other = mask", "return x[mask]"), "with another name"),
                (("mask = torch.eye(n, n + 1).bool()", "return x[mask]"), "not square"),
                (("mask = torch.ones(n, n).bool()", "return x[mask]"), "all of it"),
                (
                    ("mask = torch.triu(torch.rand(n, n)).bool()", "return x[mask]"),
                    "a triangle of data",
                ),
                ((_MADE, "x[mask] = 0", "return x"), "an assignment"),
            )
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None or mentions(site, _OVERRIDES):
            return
        selections = _Selections(site, site.function)
        found = dict(selections.found())
        if not found:
            return
        splice = Splice(site)
        for node, text in found.items():
            splice.replace(node, text)
        notes = [_OTHER_SHAPE] if selections.loose else []
        yield splice.rewrite("take the elements by their places", rank=11, notes=notes)


class _Selections:
    """What one function selects by masks that it makes of sizes."""

    def __init__(self, site: Site, function: cst.FunctionDef) -> None:
        self.site = site
        self.function = function
        self.splice = Splice(site)
        self.masks: dict[str, _Mask] = {}
        #: Whether a tensor's rows are not counted by its own size, by all that the text says.
        self.loose = False
        for _ in range(2):
            for node in walk(function.body):
                self._bind(node)
        places = (self.site.places_of(name, function) for name in self.masks)
        if not all(self._is_harmless(place) for each in places for place in each):
            self.masks = {}

    def found(self) -> Iterator[tuple[cst.BaseExpression, str]]:
        for node in walk(self.function.body):
            match node:
                case cst.Subscript(
                    value=value,
                    slice=[cst.SubscriptElement(slice=cst.Index(value=given, star=None))],
                ) if not self._is_target(node):
                    text = self._selected(value, given)
                case cst.Call(
                    args=[
                        cst.Arg(keyword=None, star="") as first,
                        cst.Arg(keyword=None, star="") as second,
                    ]
                ) if resolve(self.site.module, node.func) == "torch.masked_select":
                    text = self._selected(first.value, second.value)
                case cst.Call(
                    func=cst.Attribute(value=value, attr=cst.Name("masked_select")),
                    args=[cst.Arg(keyword=None, star="", value=given)],
                ):
                    text = self._selected(value, given)
                case _:
                    continue
            if text is not None:
                yield node, text

    def _selected(self, value: cst.BaseExpression, given: cst.BaseExpression) -> str | None:
        """The elements of ``value`` where the mask ``given`` holds, without the mask."""
        mask = self._mask(given)
        if mask is None or not isinstance(value, cst.Name | cst.Attribute):
            return None
        fact = infer(given, self.site.fact)
        if fact is None or fact.dtype not in _MASKS or not _is_square(infer(value, self.site.fact)):
            return None
        inner = given.expression if isinstance(given, cst.UnaryOperation) else given
        size = mask.size or (f"len({inner.value})" if isinstance(inner, cst.Name) else "")
        if not size:
            return None
        text, torch = self.splice.source_of(value), torch_name(self.site)
        self.loose = self.loose or not self._is_size_of(size, text)
        match mask.kind:
            case "diagonal":
                return f"{text}.view({size}, {size}).diagonal().clone()"
            case "others":
                rows = f"{text}.flatten()[1:].view({size} - 1, {size} + 1)[:, :-1]"
                return f"{rows}.clone().flatten()"
            case kind:
                indices = f"{torch}.{kind}_indices({size}, {size}, {mask.offset}"
                return f"{text}.view({size}, {size})[{indices}, device={text}.device).unbind()]"

    def _bind(self, node: cst.CSTNode) -> None:
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value):
                mask = self._mask(value)
                if mask is not None and times_bound(self.function, name) == 1:
                    self.masks[name] = mask

    def _is_harmless(self, place: cst.CSTNode) -> bool:
        """Whether nothing is done with a mask that could write into it, now or later."""
        parent = self.site.parent(place)
        match parent:
            case cst.AssignTarget() | cst.Index() | cst.BinaryOperation() | cst.UnaryOperation():
                return True
            case cst.Attribute(attr=cst.Name(name)):
                return name in _READING
            case cst.Arg():
                call = self.site.parent(parent)
                called = call.func if isinstance(call, cst.Call) else None
                match called:
                    case cst.Attribute(attr=cst.Name("masked_select" | "masked_fill")):
                        return True
        return False

    def _mask(self, node: cst.BaseExpression) -> _Mask | None:
        """Which elements hold, if the expression is a mask that a size alone decides."""
        match node:
            case cst.Name(value=name):
                return self.masks.get(name)
            case cst.UnaryOperation(operator=cst.BitInvert(), expression=inner):
                mask = self._mask(inner)
                return mask.inverted() if mask and self._is_bool(inner) else None
            case cst.BinaryOperation(cst.Integer("1"), cst.Subtract(), inner):
                mask = self._mask(inner)
                return mask.inverted() if mask else None
            case cst.Comparison(
                left,
                [cst.ComparisonTarget(cst.Equal() | cst.GreaterThan() as sign, cst.Integer(n))],
            ) if (isinstance(sign, cst.Equal), n) in ((False, "0"), (True, "0"), (True, "1")):
                mask = self._mask(left)
                inverted = isinstance(sign, cst.Equal) and n == "0"
                return mask.inverted() if mask and inverted else mask
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(method)), args=args):
                called = (resolve(self.site.module, node.func) or "").removeprefix("torch.")
                if called == "eye":
                    return _Mask("diagonal", self._size(args[0])) if _is_square_eye(args) else None
                if called in _TRIANGLES and args:
                    return self._triangle(called, args[0].value, args[1:])
                if method in _TRIANGLES:
                    return self._triangle(method, inner, args)
                if method in _KEEPING and all(self._is_device(arg) for arg in args):
                    return self._mask(inner)
        return None

    def _is_bool(self, node: cst.BaseExpression) -> bool:
        fact = infer(node, self.site.fact)
        return fact is not None and fact.dtype == "torch.bool"

    def _is_device(self, arg: cst.Arg) -> bool:
        return _DEVICES.fullmatch(self.splice.source_of(arg.value)) is not None

    def _triangle(
        self, kind: str, ones: cst.BaseExpression, rest: Sequence[cst.Arg]
    ) -> _Mask | None:
        if not (
            isinstance(ones, cst.Call) and resolve(self.site.module, ones.func) == "torch.ones"
        ):
            return None
        sizes = [arg for arg in ones.args if arg.keyword is None]
        texts = {self.splice.source_of(arg.value) for arg in sizes}
        if len(sizes) != 2 or len(texts) != 1 or any(arg.star for arg in ones.args):
            return None
        offset = rest[0].value if len(rest) == 1 else None
        if not rest:
            return _Mask(kind, self._size(sizes[0]))
        keyword = rest[0].keyword
        if keyword is not None and keyword.value != "diagonal":
            return None
        text = self.splice.source_of(offset) if offset is not None else ""
        return _Mask(kind, self._size(sizes[0]), text) if re.fullmatch(r"-?\d+", text) else None

    def _size(self, arg: cst.Arg) -> str:
        """The number of rows, where a name that is bound once says it."""
        match arg.value:
            case cst.Name(value=name) if times_bound(self.function, name) == 1:
                return name
            case cst.Integer(value=text):
                return text
        return ""

    def _is_size_of(self, size: str, tensor: str) -> bool:
        """Whether the name was given how many rows the tensor has."""
        own = {f"{tensor}.shape[0]", f"{tensor}.size(0)", f"len({tensor})"}
        for node in walk(self.function.body):
            match node:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value):
                    if name == size and self.splice.source_of(value) in own:
                        return True
        return size in own

    def _is_target(self, node: cst.CSTNode) -> bool:
        parent = self.site.parent(node)
        return isinstance(parent, cst.AssignTarget | cst.AugAssign | cst.Del)


def _is_square(fact: Fact | None) -> bool:
    return fact is not None and fact.type in _TYPES and len(fact.shape or ()) == 2


def _is_square_eye(args: Sequence[cst.Arg]) -> bool:
    plain = [arg for arg in args if arg.keyword is None]
    named = {arg.keyword.value for arg in args if arg.keyword is not None}
    return len(plain) == 1 and not plain[0].star and named <= {"dtype", "device", "requires_grad"}
