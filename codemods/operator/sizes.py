"""How large a piece's results are, told from its text: the sizes that a fake names.

A small abstract run: tensors, arrays and nested lists are values with sizes, numbers are texts
over the operator's parameters (``x.shape[0] - n + 1``), each with the number that was recorded.
What the text does not tell is left open; what filters (``if`` in a comprehension, a set) is said
to depend on the data.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.scopes import module_bindings
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from .array_sizes import NEW_AXIS, ONE, Given, array_call, grid
from .size_values import (
    DATA,
    NUMBER,
    OPEN,
    TORN,
    UNKNOWN,
    Loops,
    Size,
    Value,
    broadcast,
    combine_parts,
    combined,
    merged,
    product,
)  # fmt: skip

_SAME = words(
    """cpu detach numpy float double half long int bool clone contiguous to type copy tolist abs exp
    log sigmoid tanh relu argsort astype round clip clamp cuda item_ sort neg sqrt square ravel_
    softmax log_softmax cumsum isnan isfinite floor ceil sign type_as requires_grad_ list tuple
    sorted reversed asarray array tensor as_tensor from_numpy ascontiguousarray zeros_like ones_like
    empty_like full_like rand_like FloatTensor LongTensor clamp_min clamp_max where_ logical_not
    expm1 log1p sin cos interp digitize searchsorted_ float16 float32 float64 int8 int16 int32 int64
    uint8 bool_ copysign hypot nan_to_num Variable roll flip fliplr flipud tril triu cumprod"""
)
#: Change the sizes of what they are called on.
_RESHAPE = words("resize_ resize_as_ set_ t_ squeeze_ unsqueeze_ transpose_ swapaxes_ swapdims_")
_KEEPS_DTYPE = words("cpu cuda detach clone contiguous copy from_numpy as_tensor")
#: The dtype of what is made of no numbers.
_UNTYPED = {"tensor": "torch.get_default_dtype()", "array": "torch.float64"}
_REDUCE = words(
    "sum mean max min prod any all argmax argmin std var amax amin median norm logsumexp"
)
_BY_SHAPE = words("zeros ones empty full rand randn randint_ new_zeros new_ones new_empty new_full")
#: Numbers that NumPy draws, as many as ``size`` says, which has this place among the arguments.
_DRAWN = {
    **dict.fromkeys(("standard_normal", "random", "random_sample"), 0),
    **dict.fromkeys(("choice", "poisson", "exponential"), 1),
    **dict.fromkeys(("normal", "uniform", "binomial", "randint", "integers", "beta", "gamma"), 2),
    **dict.fromkeys(("laplace", "lognormal", "gumbel", "logistic"), 2),
}
#: Have the default dtype, where none is named.
_PLAIN = words("zeros ones empty rand randn")
_MAX_DEPTH = 5


def _applied_forward(site: Site, func: cst.BaseExpression) -> cst.FunctionDef | None:
    """The ``forward`` of the file's own `torch.autograd.Function` of which ``apply`` is called."""
    match func:
        case cst.Attribute(value=cst.Name(owner), attr=cst.Name("apply")):
            pass
        case _:
            return None
    match module_bindings(site.module).get(owner, ()):
        case [cst.ClassDef() as made]:
            found = [
                it
                for it in made.body.body
                if isinstance(it, cst.FunctionDef) and it.name.value == "forward"
            ]
            return found[0] if len(found) == 1 else None
    return None


def _in_order(sizes: tuple[Size, ...], dims: Sequence[str], name: str) -> Value:
    """The sizes of ``x.transpose(1, 2)`` and ``x.permute(0, 2, 1)``."""
    if not all(
        text.lstrip("-").isdigit() and -len(sizes) <= int(text) < len(sizes) for text in dims
    ):
        return UNKNOWN
    places = [int(text) % len(sizes) for text in dims]
    order = list(range(len(sizes)))
    if name == "transpose" and len(places) == 2:
        first, second = places
        order[first], order[second] = second, first
    elif name == "permute" and sorted(places) == order:
        order = places
    else:
        return UNKNOWN
    return Value(tuple(sizes[place] for place in order))


def _matrix_product(one: Value, other: Value) -> Value:
    """The sizes of ``a @ b``, where no batches are fitted to each other."""
    left, right = one.sizes, other.sizes
    if not left or not right:
        return UNKNOWN
    if len(right) == 1:
        return Value(left[:-1])
    if len(left) == 1:
        return Value((*right[:-2], right[-1]))
    if len(right) == 2 or len(left) == len(right) == 3:
        return Value((*left[:-1], right[-1]))
    return UNKNOWN


def fact_value(fact: Fact | None, name: str = "") -> Value:
    """What a parameter of the operator is: its sizes are texts."""
    if fact is None:
        return UNKNOWN
    if fact.kind in ("tensor", "ndarray") and fact.shape is not None:
        return Value(
            tuple(Size(f"{name}.shape[{n}]", size) for n, size in enumerate(fact.shape))
            if name
            else tuple(OPEN for _ in fact.shape)
        )
    if fact.kind == "int":
        value = fact.value if isinstance(fact.value, int) else None
        return Value((), Size(name, value) if name else OPEN)
    if fact.kind in ("float", "bool", "str"):
        return NUMBER
    if fact.kind in ("list", "tuple"):
        length = len(fact.items) if fact.items is not None else None
        first = fact_value((fact.items or (None,))[0])
        inner = first.sizes or ()
        return Value((Size(f"len({name})", length) if name else OPEN, *inner))
    return UNKNOWN


#: A size that is never negative, by its text.
_COUNTS = re.compile(r"\d+|[\w.]+\.shape\[\d+\]")


class Reader:
    """Reads statements and expressions of one file; ``known`` says what nodes and names are."""

    def __init__(
        self, site: Site, names: Mapping[str, Value], nodes: Mapping[cst.CSTNode, Value],
        depth: int = 0,
    ) -> None:  # fmt: skip
        self.site = site
        self.names = dict(names)
        self.nodes = nodes
        self.depth = depth
        self.returned: list[Value] = []
        #: In how many loops a name was last bound.
        self.born: dict[str, int] = {}
        #: Names that are bound to lists.
        self.lists: set[str] = set()
        #: Functions of one expression, by the names that they are given here.
        self.lambdas: dict[str, cst.Lambda] = {}
        #: Functions that the code defines within itself.
        self.inner: dict[str, cst.FunctionDef] = {}

    # -- statements --------------------------------------------------------------------------

    def run(self, statements: Sequence[cst.CSTNode], loops: Loops = ()) -> None:
        """``loops`` are how often the loops around them run, outermost first."""
        for statement in statements:
            self.statement(statement, loops)

    def statement(self, node: cst.CSTNode, loops: Loops) -> None:
        match node:
            case cst.SimpleStatementLine(body=body) | cst.SimpleStatementSuite(body=body):
                for small in body:
                    self.small(small, loops)
            case cst.IndentedBlock(body=body):
                self.run(body, loops)
            case cst.For(target=target, iter=iterable, body=body):
                value = self.value(iterable)
                self.bind(target, value.item)
                # A loop that may be left, or a round that may be cut short: the data decides.
                left = any(isinstance(x, _LEAVES) for x in walk(body))
                self.statement(body, (*loops, DATA if left else value.length))
            case cst.With(body=body):
                self.statement(body, loops)
            case cst.Try(body=body, handlers=handlers, orelse=orelse, finalbody=last):
                self.either([body, *(each.body for each in handlers)], loops)
                for part in (orelse, last):
                    if part is not None:
                        self.statement(part.body, loops)
            case cst.If(body=body, orelse=orelse):
                inner = orelse.body if isinstance(orelse, cst.Else) else orelse
                self.either([body, inner], loops)
            case cst.While(body=body):
                self.statement(body, (*loops, DATA))
            case cst.FunctionDef(name=cst.Name(name)):
                self.inner[name] = node

    def put(self, target: cst.CSTNode, found: Value) -> None:
        """``outputs[i] = x[kept]``: one item of a list gets other sizes."""
        match target:
            case cst.Subscript(value=cst.Name(name)) if name in self.names:
                held = self.names[name]
                if not held.lists or not held.sizes or len(held.sizes) < 2:
                    return
                length, *inner = held.sizes
                if found.sizes is None or len(found.sizes) != len(inner):
                    each: tuple[Size, ...] = (TORN,) * len(inner)
                else:
                    each = merged(Value(tuple(inner)), Value(found.sizes), DATA).sizes or ()
                self.names[name] = dataclasses.replace(held, sizes=(length, *each))

    def either(self, bodies: Sequence[cst.CSTNode | None], loops: Loops) -> None:
        """One of the bodies runs; None stands for nothing."""
        before = self.names
        ends: list[dict[str, Value]] = []
        for body in bodies:
            self.names = dict(before)
            if body is not None:
                self.statement(body, loops)
                if _raises(body):
                    continue
            ends.append(self.names)
        self.names = ends[0] if ends else dict(before)
        for other in ends[1:]:
            for name in {*self.names, *other}:
                one = self.names.get(name) or other.get(name) or UNKNOWN
                self.names[name] = merged(one, other.get(name) or one, DATA)

    def small(self, node: cst.BaseSmallStatement, loops: Loops) -> None:
        match node:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(name))], value=cst.Lambda() as made
            ):
                self.lambdas[name] = made
            case cst.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self.put(target.target, found)
                    self.bind(target.target, self.in_rounds(target.target, found, loops))
                    for name, given in _bound(target.target, value):
                        self.born[name] = len(loops)
                        (self.lists.add if _is_list(given) else self.lists.discard)(name)
            case cst.AnnAssign(target=target, value=value) if value is not None:
                self.bind(target, self.value(value))
            case cst.Return(value=value) if value is not None:
                self.returned.append(self.value(value))
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=cst.Name(name), attr=attr), args=[
                argument
            ])) if attr.value == "append":  # fmt: skip
                old = self.names.get(name, UNKNOWN)
                item = combine_parts(self.value(argument.value))
                rounds = product(loops[self.born.get(name, len(loops)) :])
                length = old.length if old.sizes else OPEN
                each = Value(item.sizes or ())
                if old.sizes and length.text != "0" and len(old.sizes) == len(each.sizes or ()) + 1:
                    each = merged(Value(old.sizes[1:]), each)  # what came before may be larger
                self.names[name] = Value(
                    (combined(length, rounds, "+"), *(each.sizes or ())), lists=item.listed
                )
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=cst.Name(name), attr=attr))):
                if attr.value in ("extend", "insert", "pop", "remove", "add", "clear", "popleft"):
                    old = self.names.get(name, UNKNOWN)
                    self.names[name] = Value((DATA, *(old.sizes or (OPEN,))[1:]))
            case cst.AugAssign(target=cst.Name(name), operator=operator, value=value):
                self.added(name, operator, self.value(value), loops)
            case cst.Del():
                for inner in walk(node):
                    shorter = self.names.get(code(inner)) if isinstance(inner, cst.Name) else None
                    if shorter is not None and shorter.sizes:
                        self.names[code(inner)] = Value((DATA, *shorter.sizes[1:]))

    def added(self, name: str, operator: cst.BaseAugOp, value: Value, loops: Loops) -> None:
        """``name += value``: a longer list, another number, or a tensor of the same sizes."""
        old = self.names.get(name, UNKNOWN)
        if name in self.lists and isinstance(operator, cst.AddAssign):
            rounds = product(loops[self.born.get(name, len(loops)) :])
            more = combined(value.length, rounds, "*")
            length = old.length if old.sizes else OPEN
            inner = (value.sizes or old.sizes or (OPEN,))[1:]
            self.names[name] = Value((combined(length, more, "+"), *inner))
        elif name in self.lists:
            self.names[name] = Value((OPEN, *(old.sizes or (OPEN,))[1:]))
        elif old.sizes == ():
            self.names[name] = Value((), DATA if any(each.data for each in loops) else OPEN)

    def in_rounds(self, target: cst.BaseExpression, value: Value, loops: Loops) -> Value:
        """What a loop leaves in a name: each round may change the sizes that another one left."""
        old = self.names.get(target.value) if isinstance(target, cst.Name) else None
        if old is None or old.sizes is None or value.sizes is None or old.sizes == value.sizes:
            return value
        if self.born.get(code(target), 0) >= len(loops):
            return value
        return Value((TORN,) * len(value.sizes))

    def bind(self, target: cst.BaseExpression, value: Value) -> None:
        match target:
            case cst.Name(name):
                self.names[name] = value
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for place, element in enumerate(elements):
                    part = UNKNOWN
                    if value.parts is not None and place < len(value.parts):
                        part = value.parts[place]
                    elif value.sizes:
                        part = value.item
                    self.bind(element.value, part)

    # -- expressions -------------------------------------------------------------------------

    def value(self, node: cst.BaseExpression) -> Value:
        if node in self.nodes:
            return self.nodes[node]
        found = self.read(node)
        return found if found is not None else UNKNOWN

    def read(self, node: cst.BaseExpression) -> Value | None:
        match node:
            case cst.Name(name):
                return self.names.get(name)
            case cst.Integer(value=text):
                return Value((), Size(text, int(text, 0)))
            case cst.Float() | cst.SimpleString() | cst.Comparison() | cst.FormattedString():
                return NUMBER if not isinstance(node, cst.Comparison) else self.compared(node)
            case cst.UnaryOperation(expression=inner):
                found = self.value(inner)
                return Value(found.sizes)
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                parts = tuple(self.value(element.value) for element in elements)
                if isinstance(node, cst.Tuple):
                    return Value(parts=parts)
                listed = parts[0].listed if parts else 1
                return Value((Size(str(len(parts)), len(parts)), *_inner(parts)), lists=listed)
            case cst.ListComp() | cst.GeneratorExp():
                return self.comprehension(node)
            case cst.BinaryOperation(left=left, operator=operator, right=right):
                return self.binary(left, operator, right)
            case cst.IfExp(body=body, orelse=orelse):
                return merged(self.value(body), self.value(orelse))
            case cst.Attribute():
                return self.attribute(node)
            case cst.Subscript():
                return self.subscript(node)
            case cst.Call():
                return self.call(node)
        return None

    def compared(self, node: cst.Comparison) -> Value:
        found = self.value(node.left)
        return Value(found.sizes) if found.sizes is not None else NUMBER

    def comprehension(self, node: cst.ListComp | cst.GeneratorExp) -> Value:
        before = dict(self.names)
        clause = node.for_in
        value = self.value(clause.iter)
        self.bind(clause.target, value.item)
        length = value.length
        inner = clause.inner_for_in
        filtered = bool(clause.ifs)
        while inner is not None:
            more = self.value(inner.iter)
            self.bind(inner.target, more.item)
            length = combined(length, more.length, "*")
            filtered = filtered or bool(inner.ifs)
            inner = inner.inner_for_in
        item = self.value(node.elt)
        self.names = before
        inner_sizes = combine_parts(item).sizes or ()
        return Value((DATA if filtered else length, *inner_sizes), lists=item.listed)

    def binary(
        self, left: cst.BaseExpression, operator: cst.BaseBinaryOp, right: cst.BaseExpression
    ) -> Value:
        one, other = self.value(left), self.value(right)
        if isinstance(left, cst.List) and isinstance(operator, cst.Multiply):
            inner = one.sizes or ()
            length = combined(inner[0], other.size, "*") if inner else OPEN
            return Value((length, *inner[1:]), lists=one.lists)
        sign = {cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.FloorDivide: "//"}
        if one.sizes == () and other.sizes == ():
            text = sign.get(type(operator), "")
            return Value((), combined(one.size, other.size, text) if text else OPEN)
        if isinstance(operator, cst.Add) and isinstance(left, cst.List | cst.ListComp):
            length = combined(one.length, other.length, "+")
            return Value((length, *(one.sizes or ())[1:]), lists=one.lists)
        if isinstance(operator, cst.MatrixMultiply):
            return _matrix_product(one, other)
        return broadcast(one, other)

    def attribute(self, node: cst.Attribute) -> Value:
        base = self.value(node.value)
        match node.attr.value:
            case "shape":
                if base.sizes is not None:
                    return Value(parts=tuple(Value((), size) for size in base.sizes))
            case "ndim":
                return NUMBER
            case "T":
                if base.sizes is not None:
                    return Value(tuple(reversed(base.sizes)))
        return UNKNOWN

    def subscript(self, node: cst.Subscript) -> Value:
        if code(node.value) in ("np.mgrid", "numpy.mgrid"):
            return grid(node, self.value)
        base = self.value(node.value)
        if base.parts is not None and len(node.slice) == 1:
            index = code(node.slice[0].slice)
            if index.lstrip("-").isdigit() and -len(base.parts) <= int(index) < len(base.parts):
                return base.parts[int(index)]
            return base.item
        if not base.sizes:
            return UNKNOWN
        sizes = list(base.sizes)
        found: list[Size] = []
        chosen = False
        for element in node.slice:
            if isinstance(element.slice, cst.Index) and code(element.slice.value) in NEW_AXIS:
                found.append(ONE)
                continue
            if not sizes or code(element.slice) == "...":
                return UNKNOWN
            size = sizes.pop(0)
            if isinstance(element.slice, cst.Slice):
                found.append(self.sliced(element.slice, size))
                continue
            index_value = self.value(cst.ensure_type(element.slice, cst.Index).value)
            if index_value.sizes is None:
                return UNKNOWN
            chooser = cst.ensure_type(element.slice, cst.Index).value
            fact = self.site.fact(chooser)
            if isinstance(chooser, cst.Comparison) or "bool" in ((fact and fact.dtype) or ""):
                found.append(DATA)  # a mask
                continue
            if chosen and len(index_value.sizes) == 1:
                continue  # tensors of one size choose together
            found += index_value.sizes
            chosen = bool(index_value.sizes)
        return Value((*found, *sizes))

    def sliced(self, node: cst.Slice, size: Size) -> Size:
        if node.lower is None and node.upper is None and node.step is None:
            return size
        if node.step is None and node.upper is None and isinstance(node.lower, cst.Integer):
            return combined(size, Size(node.lower.value, int(node.lower.value)), "-")
        if node.step is None and node.lower is None and code(node.upper or node).startswith("-"):
            text = code(node.upper or node)[1:]
            return combined(size, Size(text, int(text)), "-") if text.isdigit() else OPEN
        if node.step is None and node.lower is None and node.upper is not None:
            limit = self.value(node.upper).size
            if size.data or limit.data:
                return DATA
            if size.known and limit.known:
                values = [it.value for it in (size, limit) if it.value is not None]
                value = min(values) if len(values) == 2 else None
                if size.text == limit.text:
                    return size
                cut = f"min({size.text}, {limit.text})"
                if not _COUNTS.fullmatch(limit.text):
                    # A number that is given may count from the end.
                    cut = f"({cut} if {limit.text} >= 0 else max({size.text} + {limit.text}, 0))"
                return Size(cut, value)
        return TORN  # as long as what is cut, or shorter: a run shows one of these

    def call(self, node: cst.Call) -> Value:
        call = self.parts_of(node)
        if not call.operands:
            return Value((Size("0", 0),)) if call.name == "list" else self.followed(node)
        for rule in (self.number, self.sequence, self.rearranged, self.made, self.elementwise):
            found = rule(call)
            if found is not None:
                return found
        return self.followed(node)

    def parts_of(self, node: cst.Call) -> _Call:
        func = node.func
        name = func.attr.value if isinstance(func, cst.Attribute) else code(func)
        arguments = [a.value for a in node.args if a.keyword is None and not a.star]
        keywords = {a.keyword.value: a.value for a in node.args if a.keyword is not None}
        of_method = isinstance(func, cst.Attribute) and self.value(func.value) is not UNKNOWN
        operands = list(arguments)
        if isinstance(func, cst.Attribute) and of_method:
            operands.insert(0, func.value)
        first = self.value(operands[0]) if operands else UNKNOWN
        return _Call(name, of_method, operands, arguments, keywords, first)

    # Each of these gives a call's value where it knows the function, and else None.

    def number(self, call: _Call) -> Value | None:
        """Functions that give a number, and the sizes themselves."""
        first, rest = call.first, call.rest
        match call.name:
            case "len":
                return Value((), first.length)
            case "item":
                return Value((), DATA)
            case "int" | "float" | "bool" | "str" if not call.of_method:
                return Value((), first.size if call.name == "int" else OPEN)
            case "numel":
                return Value((), product(first.sizes))
            case "min" | "max" if not call.of_method:
                return self.extreme(call)
            case "size" | "dim" if call.of_method and first.sizes is not None:
                if rest and code(rest[0]).lstrip("-").isdigit():
                    place = int(code(rest[0]))
                    # An element of a list of parts has more dimensions than are known of it.
                    known = -len(first.sizes) <= place < len(first.sizes)
                    return Value((), first.sizes[place] if known else OPEN)
                if call.name == "size":
                    return Value(parts=tuple(Value((), size) for size in first.sizes))
        return None

    def extreme(self, call: _Call) -> Value | None:
        """``min(x.shape)``, ``max(n, x.shape[0])``: of sizes, no values of tensors."""
        parts = [self.value(each) for each in call.arguments]
        if len(parts) == 1 and call.first.parts:
            parts = list(call.first.parts)
        sizes = [part.size for part in parts]
        if call.keywords or len(sizes) < 2 or any(part.sizes != () for part in parts):
            return None
        if not all(size.known for size in sizes):
            return Value((), DATA if any(size.data for size in sizes) else OPEN)
        texts = dict.fromkeys(size.text for size in sizes)
        if len(texts) == 1:
            return Value((), sizes[0])
        values = [size.value for size in sizes if size.value is not None]
        value = (min if call.name == "min" else max)(values) if len(values) == len(sizes) else None
        return Value((), Size(f"{call.name}({', '.join(texts)})", value))

    def sequence(self, call: _Call) -> Value | None:
        """Functions that give one dimension, to iterate over or to choose by."""
        first = call.first
        match call.name:
            case "range" | "arange":
                return self.ranged(call.arguments)
            case "enumerate":
                item = Value(parts=(NUMBER, first.item))
                return _Listing((first.length,), OPEN, None, item)
            case "zip":
                items = tuple(self.value(each).item for each in call.arguments)
                lengths = [self.value(each).length for each in call.arguments]
                return _Listing((_shortest(lengths),), OPEN, None, Value(parts=items))
            case "nonzero" if first.sizes is not None and call.of_method and not call.keywords:
                dims = len(first.sizes)
                return Value((DATA, Size(str(dims), dims)))
            case "set" | "unique" | "nonzero" | "filter" | "masked_select":
                return Value((DATA, *(first.sizes or (OPEN,))[1:]))
            case "flatnonzero":
                return Value((DATA,))
            case "argwhere" if first.sizes is not None:
                dims = len(first.sizes)
                return Value((DATA, Size(str(dims), dims)))
            case "tolist" if first.sizes is not None:
                return Value(first.sizes, lists=len(first.sizes))
        return None

    def rearranged(self, call: _Call) -> Value | None:
        """Functions that give the same elements in other dimensions, or fewer of them."""
        first, rest, sizes = call.first, call.rest, call.first.sizes
        match call.name:
            case "flatten" | "ravel" if not rest:
                return UNKNOWN if sizes is None else Value((product(sizes),))
            case "view" | "reshape":
                return self.shaped(rest, first)
            case "stack" if (place := _place(rest, call.keywords)) is not None:
                stacked = combine_parts(first).sizes
                if stacked is None or place >= len(stacked):
                    return UNKNOWN
                count, *inner = stacked
                return Value((*inner[:place], count, *inner[place:]))
            case "cat" | "concat" | "concatenate" if (
                place := _place(rest, call.keywords)
            ) is not None:
                return _joined(first, place)
            case "t" if sizes is not None and len(sizes) <= 2 and call.of_method:
                return Value(sizes[::-1])
            case "transpose" | "permute" if sizes is not None and call.of_method:
                return _in_order(sizes, [code(each) for each in rest], call.name)
            case "matmul" | "mm" | "bmm" | "mv" if len(rest) == 1:
                return _matrix_product(first, self.value(rest[0]))
            case "diag" | "diagonal" if sizes is not None and len(sizes) == 2:
                return Value(sizes[:1])
            case "unsqueeze" if sizes is not None and rest and code(rest[0]).isdigit():
                place = int(code(rest[0]))
                return Value((*sizes[:place], Size("1", 1), *sizes[place:]))
        if call.name in _REDUCE:
            return self.reduced(first, rest, call.keywords)
        return None

    def made(self, call: _Call) -> Value | None:
        """Functions that make a tensor of sizes that they are given."""
        if call.name == "sparse_coo_tensor" and len(call.arguments) == 3:
            return dataclasses.replace(self.shaped(call.arguments[2:], UNKNOWN), sparse=True)
        if call.name == "eye":
            return Value((call.first.size, call.first.size))
        if call.name in _BY_SHAPE or (call.name == "full" and call.arguments):
            shape = call.arguments[:1] if call.name in ("full", "new_full") else call.arguments
            shape = [call.keywords["size"]] if "size" in call.keywords else shape
            plain = call.name in _PLAIN and not call.of_method and "dtype" not in call.keywords
            return dataclasses.replace(self.shaped(shape, UNKNOWN), plain=plain)
        if call.name in _DRAWN and not call.of_method:
            place = _DRAWN[call.name]
            given = call.keywords.get("size") or next(iter(call.arguments[place : place + 1]), None)
            if given is not None and code(given) != "None":
                return self.shaped([given], UNKNOWN)
        return array_call(call.name, Given(call.first, call.rest, call.keywords, self.value))

    def elementwise(self, call: _Call) -> Value | None:
        """Functions whose result has the sizes of what they are given."""
        in_place = call.name.endswith("_") and not call.name.endswith("__")
        if call.of_method and in_place and call.name not in _RESHAPE:
            return call.first
        if call.name in ("maximum", "minimum", "where") and call.rest:
            found = call.first
            for each in call.rest:
                found = broadcast(found, self.value(each))
            return found
        if call.name in _SAME:
            listed = combine_parts(call.first)
            untyped = listed.untyped if call.name in _KEEPS_DTYPE else ""
            alone = not call.of_method and len(call.arguments) == 1
            if alone and "dtype" not in call.keywords:
                untyped = _UNTYPED.get(call.name, untyped) if listed.lists else untyped
            plain = listed.plain and call.name in _KEEPS_DTYPE
            return dataclasses.replace(listed, untyped=untyped, plain=plain)
        return None

    def ranged(self, arguments: Sequence[cst.BaseExpression]) -> Value:
        sizes = [self.value(each).size for each in arguments]
        if len(sizes) == 1:
            return Value((sizes[0],))
        if len(sizes) == 2:
            if sizes[0].text == "0":
                return Value((sizes[1],))
            return Value((combined(sizes[1], sizes[0], "-"),))
        return Value((OPEN,))

    def shaped(self, arguments: Sequence[cst.BaseExpression], of: Value) -> Value:
        if len(arguments) == 1:
            only = self.value(arguments[0])
            if only.parts is not None:
                found = tuple(part.size for part in only.parts)
            elif only.sizes == ():
                found = (only.size,)
            elif isinstance(arguments[0], cst.List):
                found = tuple(self.value(e.value).size for e in arguments[0].elements)
            elif (listed := _of_list(only)) is not None:
                found = listed
            else:
                return UNKNOWN
        else:
            found = tuple(self.value(each).size for each in arguments)
        if len(found) == 1 and code(arguments[0]) == "-1":
            return Value((product(of.sizes),))
        if any(code(each) == "-1" for each in arguments):
            return Value(tuple(OPEN if not size.known else size for size in found))
        return Value(found)

    def reduced(
        self, value: Value, rest: Sequence[cst.BaseExpression],
        keywords: Mapping[str, cst.BaseExpression],
    ) -> Value:  # fmt: skip
        where = next((keywords[k] for k in ("dim", "axis") if k in keywords), None)
        if where is None and rest:
            where = rest[0]
        if value.sizes is None:
            return UNKNOWN
        if where is None:
            return NUMBER
        text = code(where)
        if not text.lstrip("-").isdigit() or not -len(value.sizes) <= int(text) < len(value.sizes):
            return UNKNOWN
        place = int(text) % len(value.sizes)
        kept = (Size("1", 1),) if "keepdim" in keywords or "keepdims" in keywords else ()
        return Value((*value.sizes[:place], *kept, *value.sizes[place + 1 :]))

    def followed(self, node: cst.Call) -> Value:
        """What a function or method of the same file gives for these arguments."""
        if self.depth >= _MAX_DEPTH:
            return UNKNOWN
        function: cst.CSTNode | None = None
        skip = 0
        if isinstance(node.func, cst.Name) and node.func.value in self.lambdas:
            return self.applied(self.lambdas[node.func.value], node)
        around: dict[str, Value] = {}
        if isinstance(node.func, cst.Name) and node.func.value in self.inner:
            function, around = self.inner[node.func.value], self.names
        elif isinstance(node.func, cst.Name):
            bound = module_bindings(self.site.module).get(node.func.value, ())
            function = bound[0] if len(bound) == 1 else None
        elif (rule := _applied_forward(self.site, node.func)) is not None:
            function, skip = rule, 1
        elif isinstance(node.func, cst.Attribute):
            found = methods_named(self.site, node.func.attr.value)
            function = found[0] if len(found) == 1 else None
            static = isinstance(function, cst.FunctionDef) and any(
                code(each.decorator) == "staticmethod" for each in function.decorators
            )
            skip = 0 if static else 1
        if not isinstance(function, cst.FunctionDef):
            return UNKNOWN
        names: dict[str, Value] = dict(around)
        parameters = params_of(function.params)[skip:]
        for parameter in parameters:
            if parameter.default is not None:
                names[parameter.name.value] = self.value(parameter.default)
        plain = [a for a in node.args if a.keyword is None and not a.star]
        for parameter, argument in zip(parameters, plain, strict=False):
            names[parameter.name.value] = self.value(argument.value)
        for argument in node.args:
            if argument.keyword is not None:
                names[argument.keyword.value] = self.value(argument.value)
        reader = Reader(self.site, names, {}, self.depth + 1)
        if around:
            reader.inner, reader.lambdas = dict(self.inner), dict(self.lambdas)
        reader.statement(function.body, ())
        return reader.result()

    def applied(self, function: cst.Lambda, node: cst.Call) -> Value:
        """What a function of one expression gives; its other names are those around it."""
        parameters = params_of(function.params)
        plain = [a.value for a in node.args if a.keyword is None and not a.star]
        if len(plain) != len(parameters) or len(plain) != len(node.args):
            return UNKNOWN
        inner = Reader(self.site, self.names, self.nodes, self.depth + 1)
        inner.lambdas = self.lambdas
        for parameter, argument in zip(parameters, plain, strict=True):
            inner.names[parameter.name.value] = self.value(argument)
        return inner.value(function.body)

    def result(self) -> Value:
        if not self.returned:
            return UNKNOWN
        found = self.returned[0]
        for each in self.returned[1:]:
            if each is UNKNOWN and found.sizes is not None:
                each = Value((TORN,) * len(found.sizes))
            elif found is UNKNOWN and each.sizes is not None:
                found = Value((TORN,) * len(each.sizes))
            found = merged(found, each, TORN)
        return found


def _of_list(value: Value) -> tuple[Size, ...] | None:
    """The sizes that a list of numbers holds which the operator is given."""
    if value.sizes is None or len(value.sizes) != 1 or value.sizes[0].value is None:
        return None
    given = re.fullmatch(r"len\((\w+)\)", value.sizes[0].text)
    if given is None:
        return None
    return tuple(Size(f"{given[1]}[{place}]", None) for place in range(value.sizes[0].value))


def _joined(value: Value, place: int) -> Value | None:
    """What is put one behind the other along a dimension: a list of items of one size, or parts."""
    if value.parts is None:
        if value.sizes is None or place + 1 >= len(value.sizes):
            return None
        count, *inner = value.sizes
        inner[place] = combined(count, inner[place], "*")
        return Value(tuple(inner))
    items = [combine_parts(part).sizes for part in value.parts]
    first = items[0] if items else None
    if first is None or place >= len(first):
        return None
    found = list(first)
    for each in items[1:]:
        if each is None or len(each) != len(first):
            return None
        for at, size in enumerate(each):
            if at == place:
                found[at] = combined(found[at], size, "+")
            elif size != found[at]:
                found[at] = OPEN
    return Value(tuple(found))


def _place(
    rest: Sequence[cst.BaseExpression], keywords: Mapping[str, cst.BaseExpression]
) -> int | None:
    """The dimension that is asked for, where it is a literal: 0 unless it is given."""
    node = keywords.get("dim", keywords.get("axis", rest[0] if rest else None))
    if node is None:
        return 0
    return int(code(node)) if code(node).isdigit() else None


_LEAVES = cst.Break | cst.Continue | cst.Return


def _raises(body: cst.CSTNode) -> bool:
    """Whether a block ends in a ``raise``."""
    lines = getattr(body, "body", ())
    if not isinstance(lines, Sequence):
        return False  # an ``elif``, which has a block of its own
    small = getattr(lines[-1], "body", ()) if lines else ()
    last = small[-1] if isinstance(small, Sequence) and small else None
    return isinstance(last, cst.Raise) or isinstance(lines[-1] if lines else None, cst.Raise)


def _bound(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The names of an assignment, each with what it is given: ``rows, columns = [], []``."""
    match target:
        case cst.Name(name):
            yield name, value
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            given = value.elements if isinstance(value, cst.Tuple) else ()
            for place, element in enumerate(elements):
                part = given[place].value if len(given) == len(elements) else value
                yield from _bound(element.value, part)


def _is_list(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call):
        return code(node.func) in ("list", "sorted") or code(node.func).endswith(".tolist")
    if isinstance(node, cst.BinaryOperation):
        return _is_list(node.left) or _is_list(node.right)
    return isinstance(node, cst.List | cst.ListComp)


def _shortest(lengths: Sequence[Size]) -> Size:
    """How long ``zip`` is."""
    if any(size.data for size in lengths):
        return DATA
    if not lengths or not all(size.known for size in lengths):
        return OPEN
    different = {size.text: size for size in lengths}
    if len(different) == 1:
        return lengths[0]
    values = [size.value for size in different.values() if size.value is not None]
    value = min(values) if len(values) == len(different) else None
    return Size(f"min({', '.join(different)})", value)


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call: ``operands`` are its positional arguments, after the receiver of a method."""

    name: str
    of_method: bool
    operands: Sequence[cst.BaseExpression]
    arguments: Sequence[cst.BaseExpression]
    keywords: Mapping[str, cst.BaseExpression]
    #: The value of the first operand.
    first: Value

    @property
    def rest(self) -> Sequence[cst.BaseExpression]:
        return self.operands[1:]


@dataclasses.dataclass(frozen=True)
class _Listing(Value):
    each: Value = UNKNOWN

    @property
    def item(self) -> Value:
        return self.each


def _inner(parts: Sequence[Value]) -> tuple[Size, ...]:
    return (parts[0].sizes or ()) if parts else ()


def methods_named(site: Site, name: str) -> list[cst.FunctionDef]:
    """The methods of that name of all classes of the file."""
    return list(_methods(site.module).get(name, ()))


@functools.lru_cache(maxsize=8)
def _methods(module: cst.Module) -> dict[str, list[cst.FunctionDef]]:
    found: dict[str, list[cst.FunctionDef]] = {}
    for statement in module.body:
        for line in statement.body.body if isinstance(statement, cst.ClassDef) else ():
            if isinstance(line, cst.FunctionDef):
                found.setdefault(line.name.value, []).append(line)
    return found
