"""Follows numbers that are read out of tensors over a whole function.

``v = x.max().item()`` makes ``v`` a *kept* name: every place that binds it binds a number of a
tensor, and every place that uses it takes a tensor as well (`flow_uses` says which do).  If one
place does not, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis import torch_names
from gbfix.analysis.activity import activity
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import children, code, walk, words
from gbfix.codemod import Site
from gbfix.rewriting.names import only_line
from gbfix.schema import Fact

from .flow_counts import mask_counted
from .flow_numbers import Arithmetic, Number
from .flow_signs import (
    counts,
    finds_places,
    is_counter,
    is_fresh,
    is_long,
    is_not_negative,
    is_part_of,
)
from .nested import Atom, Parts

_FLOATS = torch_names.FLOAT_DTYPES
_INTS = torch_names.INT_DTYPES
#: Functions of these change no tensor (but for those that say so).
_COMPUTE = ("torch.", "builtins.", "math.", "random.", "numpy.random.")
#: What fails for a negative position.
_BY_POSITION = words(
    """gather scatter scatter_ scatter_add scatter_add_ index_select index_add index_add_ one_hot
    embedding bincount scatter_reduce scatter_reduce_ index_copy index_copy_"""
)


class Stopped(Exception):
    """A number goes where no tensor can: said in words for whoever asks."""


class Widen(Exception):
    """Numbers meet in arithmetic: floats must be kept as float64."""


class Flow:
    """The kept numbers of one function."""

    def __init__(
        self,
        site: Site,
        reads: Sequence[cst.CSTNode],
        *,
        wide: bool,
        tensors: bool = False,
        drawn: Mapping[cst.CSTNode, Number] | None = None,
    ) -> None:
        """``drawn`` are numbers that Python draws, with the tensors that take their places."""
        self.site = site
        self.drawn = drawn or {}
        assert site.function is not None
        self.function = site.function
        self.torch = torch_name(site)
        self.wide = wide
        self.tensors = tensors
        self.arithmetic = Arithmetic(self)
        self.names: dict[str, Number] = {}
        #: Names of lists of numbers: ``sizes = t.tolist()``.
        self.lists: dict[str, Number] = {}
        self.changed_in_place = _changes_in_place(site)
        self._reads = {read: self._read(read) for read in reads}
        #: Where kept names are bound.
        self.targets: dict[cst.CSTNode, str] = {}
        #: Python numbers that kept names are bound to as well, made tensors.
        self.made: dict[cst.CSTNode, Parts] = {}
        self._settle()

    @property
    def reads(self) -> tuple[cst.CSTNode, ...]:
        """The expressions that read numbers out of tensors."""
        return tuple(self._reads)

    # -- what is kept ------------------------------------------------------------------------

    def kept(self, node: cst.BaseExpression) -> Number | None:
        if node in self._reads:
            return None if is_tolist(node) else self._reads[node]
        if isinstance(node, cst.Name):
            return self.names.get(node.value)
        return self.element(node)

    def element(self, node: cst.CSTNode) -> Number | None:
        """``sizes[0]`` of a list of numbers."""
        match node:
            case cst.Subscript(
                value=base, slice=[cst.SubscriptElement(slice=cst.Index(value=index))]
            ):
                whole = self.list_of(base)
                static = isinstance(index, cst.Integer) or (
                    isinstance(index, cst.UnaryOperation)
                    and isinstance(index.expression, cst.Integer)
                )
                return whole if static else None
        return None

    def list_of(self, node: cst.CSTNode) -> Number | None:
        """The numbers of a list that is kept as a tuple of tensors."""
        if isinstance(node, cst.Name):
            return self.lists.get(node.value)
        return self._reads.get(node) if is_tolist(node) else None

    def need_wide(self) -> None:
        if not self.wide:
            raise Widen

    def is_kept(self, node: cst.CSTNode) -> bool:
        """Whether a kept number or list stands somewhere in the node."""
        return any(
            inner in self._reads
            or (isinstance(inner, cst.Name) and inner.value in (self.names | self.lists))
            for inner in variables(node)
        )

    def _settle(self) -> None:
        """Find all names that are bound to kept numbers, and see that nothing else binds them."""
        self._bind_kept()
        self._bind_numbers()
        if any(number.mixed for number in self.names.values()):
            made = dict(self.targets)
            self._bind_kept()
            self.targets.update(made)
        self._refuse_other_bindings()

    def _bind_kept(self) -> None:
        for _ in range(12):
            before = self._bound_so_far()
            self.targets.clear()
            for name, number, many in self._bindings():
                table = self.lists if many else self.names
                old = table.get(name)
                table[name] = number if old is None else _joined(name, old, number)
            if before == self._bound_so_far():
                break

    def _bound_so_far(self) -> tuple[dict[str, bool], set[str]]:
        return {name: number.mixed for name, number in self.names.items()}, set(self.lists)

    def _bind_numbers(self) -> None:
        """``s = 1.0`` where ``s = x.max().item()`` stands elsewhere: a tensor in both places."""
        for node in walk(self.function.body):
            match node:
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=name) as target)], value=value
                ) if name in self.names and target not in self.targets:
                    number = self.arithmetic.number(value)
                    kept = self.names[name]
                    if number is None or number.kept:
                        continue
                    mixed = kept.kind != number.kind
                    if mixed and (number.literal is None or number.literal != int(number.literal)):
                        raise Stopped(f"`{name}` is an int in one place and a float in another")
                    self.need_wide_for(kept)
                    dtype = "int64" if kept.kind == "int" else "float64"
                    self.made[value] = (
                        f"{self.torch}.tensor(",
                        str(int(number.literal or 0)) if mixed and kept.kind == "int" else value,
                        f", dtype={self.torch}.{dtype})",
                    )
                    self.targets[target] = name
                    exact = kept.exact and number.literal is not None
                    low = (
                        None
                        if number.low is None or kept.low is None
                        else min(number.low, kept.low)
                    )
                    self.names[name] = kept.but(
                        low=low, exact=exact, device="", mixed=mixed or kept.mixed
                    )

    def need_wide_for(self, number: Number) -> None:
        if not number.wide:
            self.need_wide()

    def _bindings(self) -> Iterator[tuple[str, Number, bool]]:
        for node in walk(self.function.body):
            if self.site.function_of(node) is not self.function:
                continue
            match node:
                case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                    yield from self._bound(target, value)
                case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                    yield from self._bound(target, value)
                case cst.NamedExpr(target=target, value=value):
                    yield from self._bound(target, value)
                case cst.AugAssign(target=cst.Name(value=name)) if name in self.names:
                    number = self.augmented(node)
                    if number is None:
                        raise Stopped(f"`{name}` is changed in a way that no tensor follows")
                    self.targets[node.target] = name
                    yield name, _plain(number), False
                case cst.AugAssign(target=cst.Name(value=name), value=value):
                    number = self.arithmetic.number(value)
                    if number is not None and number.kept and self._is_number(name):
                        yield name, _plain(number), False
                case cst.For(target=target, iter=source) | cst.CompFor(target=target, iter=source):
                    yield from self._looped(target, source)

    def _is_number(self, name: str) -> bool:
        """Whether a name that is counted up starts as a Python number: ``total = 0.0``."""
        for node in walk(self.function.body):
            match node:
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=bound))], value=value
                ) if bound == name and isinstance(value, cst.Integer | cst.Float):
                    return True
        return False

    def augmented(self, node: cst.AugAssign) -> Number | None:
        """The number that ``n += 1`` binds, as if it were ``n = n + 1``."""
        operator = _PLAIN.get(type(node.operator))
        if operator is None:
            return None
        as_binary = cst.BinaryOperation(left=node.target, operator=operator, right=node.value)
        return self.arithmetic.number(as_binary)

    def _bound(
        self, target: cst.BaseExpression, value: cst.BaseExpression
    ) -> Iterator[tuple[str, Number, bool]]:
        match target:
            case cst.Name(value=name):
                many = self.list_of(value)
                number = many or self.arithmetic.number(value)
                if number is not None and number.kept:
                    self.targets[target] = name
                    yield name, _plain(number), many is not None
            case cst.Tuple() | cst.List():
                many = self.list_of(value)
                for index, element in enumerate(target.elements):
                    if many is not None and isinstance(element.value, cst.Name):
                        self.targets[element.value] = element.value.value
                        yield element.value.value, _plain(many), False
                    elif isinstance(value, cst.Tuple) and len(value.elements) == len(
                        target.elements
                    ):
                        yield from self._bound(element.value, value.elements[index].value)

    def _looped(
        self, target: cst.BaseExpression, source: cst.BaseExpression
    ) -> Iterator[tuple[str, Number, bool]]:
        for place, iterated in _pairs(self.site, target, source):
            many = self.list_of(iterated)
            if many is not None and isinstance(place, cst.Name):
                self.targets[place] = place.value
                yield place.value, _plain(many), False

    def _refuse_other_bindings(self) -> None:
        names = set(self.names) | set(self.lists)
        if set(self.names) & set(self.lists):
            raise Stopped("a name is a number in one place and a list in another")
        stores = set(self.targets)
        for node in walk(self.function.body):
            inner = isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef)
            if inner and names & _free_names(node):
                raise Stopped("an inner function uses the number")
            what = _bound_names(node)
            if what & names and not all(
                isinstance(inner, cst.Name) and inner in stores
                for inner in _target_names(node)
                if isinstance(inner, cst.Name) and inner.value in names
            ):
                name = sorted(what & names)[0]
                raise Stopped(f"`{name}` is bound to something else as well")
        scope = activity(self.function.body)
        if names & (scope.globals | scope.nonlocals):
            raise Stopped("the name belongs to another scope")
        parameters = {param.name.value for param in _parameters(self.function)}
        if names & parameters:
            raise Stopped("an argument and a number share a name")

    # -- reads -------------------------------------------------------------------------------

    def _read(self, read: cst.CSTNode) -> Number:
        if read in self.drawn:
            return self.drawn[read]
        if self.tensors:
            return self._implicit(read)
        mask = mask_counted(self.site, read)
        if mask is not None:
            fact = infer(mask, self.site.fact)
            counted = Number("int", kept=True, low=0.0, device=(fact and fact.device) or "")
            return counted.edited(read, f"{self.torch}.count_nonzero(", mask, ")")
        value = tensor_of(self.site, read)
        if value is None:
            raise Stopped("not seen to read a tensor")
        fact = infer(value, self.site.fact)
        assert fact is not None
        kind = kind_of_read(self.site, read, fact)
        if kind is None:
            raise Stopped("the number is neither an int nor a float")
        many = is_tolist(read)
        if many and fact.shape is not None and len(fact.shape) == 0:
            raise Stopped("a single number as a list")
        suffix = self._suffix(value, fact, kind, many=many)
        low = 0.0 if counts(value) or self._is_largest_position(value) else None
        low = 0.0 if is_not_negative(self.site, value) else low
        if low is None and kind == "int" and is_counter(self.site, value):
            low = 0.0
        number = Number(
            kind,
            kept=True,
            low=low,
            exact=kind == "int",
            wide=kind == "int" or self.wide,
            device=fact.device or "",
        )
        if read is value:
            return number if not suffix else number.edited(read, Atom(value), suffix)
        return number.edited(read, Atom(value), suffix)

    def _implicit(self, read: cst.CSTNode) -> Number:
        """A tensor where torch itself reads the number: it is handed over as it is."""
        fact = infer(read, self.site.fact) if isinstance(read, cst.BaseExpression) else None
        if fact is None or fact.dtype not in _FLOATS | _INTS:
            raise Stopped("not seen to be a tensor of numbers")
        kind = "float" if fact.dtype in _FLOATS else "int"
        assert isinstance(read, cst.BaseExpression)
        low = 0.0 if counts(read) else None
        return Number(kind, kept=True, low=low, exact=kind == "int", device=fact.device or "")

    def _is_largest_position(self, value: cst.BaseExpression) -> bool:
        """Whether it is the largest of numbers that are used as positions, never negative ones."""
        match value:
            case cst.Call(
                func=cst.Attribute(value=cst.Name(value=name), attr=cst.Name("max")), args=[]
            ):
                pass
            case _:
                return False
        for node in walk(self.function.body):
            if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
                continue
            by_position = node.func.attr.value in _BY_POSITION
            if by_position and any(is_part_of(arg.value, name) for arg in node.args):
                return True
        return False

    def _suffix(self, value: cst.BaseExpression, fact: Fact, kind: str, *, many: bool) -> str:
        floats = fact.dtype in _FLOATS
        parts = ""
        if not many and fact.shape != () and fact.shape is not None:
            parts += ".reshape(())"
        if floats and not code(value).endswith(".detach()"):
            parts += ".detach()"
        if not is_fresh(value) and self.changed_in_place:
            parts += ".clone()"
        if kind == "int":
            parts += "" if is_long(value) else ".long()"
        elif not floats or self.wide:
            parts += ".double()"
        return f"{parts}.unbind()" if many else parts


_PLAIN: dict[type[cst.BaseAugOp], cst.BaseBinaryOp] = {
    cst.AddAssign: cst.Add(),
    cst.SubtractAssign: cst.Subtract(),
    cst.MultiplyAssign: cst.Multiply(),
    cst.DivideAssign: cst.Divide(),
    cst.FloorDivideAssign: cst.FloorDivide(),
    cst.ModuloAssign: cst.Modulo(),
    cst.PowerAssign: cst.Power(),
}


def _plain(number: Number) -> Number:
    """What a name carries: what is known of the number, not how it was made."""
    return number.but(edits={}, limits=(), doubts=(), literal=None)


def _joined(name: str, first: Number, second: Number) -> Number:
    if first.kind != second.kind:
        raise Stopped(f"`{name}` is an int in one place and a float in another")
    low = None
    if first.low is not None and second.low is not None:
        low = min(first.low, second.low)
        if low < first.low and second.low < first.low:
            low = None  # it may fall further with every round of a loop
    return first.but(
        low=low,
        exact=first.exact and second.exact,
        wide=first.wide and second.wide,
        mixed=first.mixed or second.mixed,
    )


def torch_name(site: Site) -> str:
    """The name under which the file has torch."""
    names = [name for name, home in import_map(site.module).items() if home == "torch"]
    return "torch" if "torch" in names or not names else names[0]


def number_reads(site: Site) -> list[cst.CSTNode]:
    """The expressions of the site's function that read numbers out of tensors."""
    assert site.function is not None
    return [
        node
        for node in walk(site.function.body)
        if site.function_of(node) is site.function
        and (tensor_of(site, node) is not None or mask_counted(site, node) is not None)
    ]


def implicit_reads(site: Site) -> list[cst.CSTNode]:
    """0-dimensional tensors of the breaking statement that torch turns into numbers itself."""
    found: list[cst.CSTNode] = []
    for node in walk(site.statement):
        match node:
            case cst.Call(args=args) if _reads_a_value(node):
                places: list[cst.BaseExpression] = [arg.value for arg in args]
            case cst.Subscript(slice=parts):
                places = [part.slice.value for part in parts if isinstance(part.slice, cst.Index)]
                held = infer(node.value, site.fact)
                if held is None or not held.is_tensor:
                    continue
                found += [bound for bound in _bounds(parts) if _is_whole(site, bound)]
            case _:
                continue
        for place in places:
            fact = infer(place, site.fact)
            if fact is None or not fact.is_tensor or fact.shape != ():
                continue
            # A byte would be a mask.
            if isinstance(node, cst.Call) or _is_long(site, place):
                found.append(place)
    return found


def _bounds(parts: Sequence[cst.SubscriptElement]) -> list[cst.BaseExpression]:
    """The bounds of the slices of an index."""
    slices = [part.slice for part in parts if isinstance(part.slice, cst.Slice)]
    return [bound for it in slices for bound in (it.lower, it.upper) if bound is not None]


def _is_whole(site: Site, node: cst.BaseExpression) -> bool:
    """Whether it is a whole number in a tensor without dimensions."""
    fact = infer(node, site.fact)
    if fact is None or not fact.is_tensor or fact.shape != ():
        return False
    return fact.dtype in ("torch.int64", "torch.int32", "torch.int16")


def _is_long(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the text says that the tensor holds an int64."""
    match node:
        case cst.Subscript(value=cst.Name() as base):
            held = infer(base, site.fact)
            return held is not None and held.is_tensor and _is_long(site, base)
        case cst.Name(name):
            line = only_line(site, name)
            match line:
                case cst.SimpleStatementLine(
                    body=[
                        cst.Assign(
                            targets=[
                                cst.AssignTarget(
                                    target=cst.Tuple(elements=[_, cst.Element(cst.Name(second))])
                                )
                            ],
                            value=value,
                        )
                    ]
                ):
                    return second == name and finds_places(value)
                case cst.SimpleStatementLine(body=[cst.Assign(targets=[_], value=value)]):
                    return is_long(value)
    return is_long(node)


def _reads_a_value(call: cst.Call) -> bool:
    func = call.func
    name = func.attr.value if isinstance(func, cst.Attribute) else ""
    if name in ("full", "full_like", "new_full"):
        return True
    return any(arg.keyword is not None and arg.keyword.value == "alpha" for arg in call.args)


def tensor_of(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The tensor of which an expression reads numbers: ``t.item()``, ``int(t)``, ``t.tolist()``."""
    match node:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("item")), args=[]):
            pass
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("tolist")), args=[]):
            while (inner := _without_transfer(value)) is not None:
                value = inner
        case cst.Call(func=cst.Name("int" | "float"), args=[cst.Arg(keyword=None, value=value)]):
            if not (resolve(site.module, node.func) or "").startswith("builtins."):
                return None
        case _:
            return None
    fact = infer(value, site.fact)
    if fact is None or not fact.is_tensor or not fact.type.endswith(("Tensor", "Parameter")):
        return None
    if is_tolist(node) and (fact.shape is None or len(fact.shape) != 1 or None in fact.shape):
        return None
    return value


def _without_transfer(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """``t`` of ``t.cpu()`` and ``t.detach()``: what a tensor needs before it is read."""
    match node:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("cpu" | "detach")), args=[]):
            return value
    return None


def kind_of_read(site: Site, read: cst.CSTNode, fact: Fact) -> str | None:
    if isinstance(read, cst.Call) and isinstance(read.func, cst.Name):
        if read.func.value == "int":
            # The truncation of a float raises an error for nan; a tensor does not.
            return "int" if fact.dtype in _INTS | {"torch.bool"} else None
        return "float"
    if fact.dtype in _FLOATS:
        return "float"
    return "int" if fact.dtype in _INTS else None


def is_tolist(node: cst.CSTNode) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("tolist")), args=[]):
            return True
    return False


def _changes_in_place(site: Site) -> bool:
    """Whether anything in the function may change a tensor in place."""
    assert site.function is not None
    for node in walk(site.function.body):
        match node:
            case cst.AugAssign():
                return True
            case cst.AssignTarget(target=cst.Subscript()):
                return True
            case cst.Call(func=cst.Attribute(attr=attr)) if attr.value.endswith("_"):
                return True
            case cst.Call(func=func, args=args):
                if any(arg.keyword is not None and arg.keyword.value == "out" for arg in args):
                    return True
                fact = site.fact(func)
                known = fact is not None and fact.kind == "function" and not fact.in_project
                name = resolve(site.module, func) or ""
                if not known and not name.startswith(_COMPUTE):
                    if not isinstance(func, cst.Attribute):
                        return True
                    held = infer(func.value, site.fact)
                    if held is None or not held.is_tensor:
                        return True
    return False


def _pairs(
    site: Site, target: cst.BaseExpression, source: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Which part of a loop's target goes over which iterable, through ``zip`` and ``enumerate``."""
    match source:
        case cst.Call(func=cst.Name("zip"), args=args) if isinstance(target, cst.Tuple):
            plain = [arg.value for arg in args if not arg.star and arg.keyword is None]
            if len(plain) == len(target.elements):
                for element, value in zip(target.elements, plain, strict=True):
                    yield from _pairs(site, element.value, value)
        case cst.Call(func=cst.Name("enumerate"), args=[first, *_]) if isinstance(
            target, cst.Tuple
        ):
            if len(target.elements) == 2:
                yield from _pairs(site, target.elements[1].value, first.value)
        case cst.Call(func=cst.Name("reversed"), args=[first]):
            yield from _pairs(site, target, first.value)
        case _:
            yield target, source


def _parameters(function: cst.FunctionDef) -> Iterator[cst.Param]:
    yield from (node for node in walk(function.params) if isinstance(node, cst.Param))


def parts_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The children of a node, without names that are no variables: ``x.t``, ``f(dim=1)``."""
    for child in children(node):
        if isinstance(node, cst.Attribute) and child is node.attr:
            continue
        if isinstance(node, cst.Arg) and child is node.keyword:
            continue
        yield child


def variables(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and all below it, without names that are no variables."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(parts_of(current))


def _free_names(node: cst.CSTNode) -> set[str]:
    return {inner.value for inner in variables(node) if isinstance(inner, cst.Name)}


def _bound_names(node: cst.CSTNode) -> frozenset[str]:
    """Names that this very node binds (not what stands below it)."""
    return frozenset(name.value for name in _target_names(node) if isinstance(name, cst.Name))


def _target_names(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    targets: list[cst.CSTNode] = []
    match node:
        case cst.AssignTarget(target=target):
            targets = [target]
        case cst.AnnAssign(target=target) | cst.AugAssign(target=target):
            targets = [target]
        case cst.For(target=target) | cst.CompFor(target=target) | cst.NamedExpr(target=target):
            targets = [target]
        case cst.WithItem(asname=cst.AsName(name=name)):
            targets = [name]
        case cst.ExceptHandler(name=cst.AsName(name=name)):
            targets = [name]
        case cst.Del(target=target):
            targets = [target]
    while targets:
        place = targets.pop()
        if isinstance(place, cst.Name):
            yield place
        elif isinstance(place, cst.Tuple | cst.List | cst.Element | cst.StarredElement):
            targets.extend(children(place))


__all__ = [
    "Flow",
    "Parts",
    "Stopped",
    "Widen",
    "implicit_reads",
    "number_reads",
    "tensor_of",
    "torch_name",
]
