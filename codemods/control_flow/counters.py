"""Python numbers that a loop counts with, as tensors of one number.

``torch.while_loop`` carries tensors.  A counter may become one where every use in the loop and
after it treats an ``int64`` tensor without dimensions as it treats the number.  A float that is
only doubled and halved is exact in the default dtype, in which it treats other tensors as the
number does.  Other floats become ``float64``: that computes as Python does, and does not count for
the dtype beside a floating tensor with dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import grouped
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site, tensor
from gbfix.schema import Fact

from .refusal import Refusal
from .texts import number_of
from .values import Values

_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply
_AUGMENTED: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
    cst.DivideAssign: cst.Divide,
}
_ORDER = (
    cst.LessThan
    | cst.LessThanEqual
    | cst.GreaterThan
    | cst.GreaterThanEqual
    | cst.Equal
    | cst.NotEqual
)
#: Floating dtypes in which every number that a loop counts to is exact.
_EXACT = words("torch.float32 torch.float64")
_COMPARED = _EXACT | words("torch.int32 torch.int64")
#: What a counter is known as once it is a tensor.
_COUNTER = tensor(dtype="torch.int64")
_RATE = tensor(dtype="torch.float64")
_HALVED = tensor(dtype="torch.float32")


def tensor_of(name: str, values: Values) -> Fact:
    """What the number is known as once it is a tensor."""
    return values.named.get(name, _COUNTER)


def check_counter(
    site: Site,
    name: str,
    loop: cst.CSTNode,
    tests: Collection[cst.CSTNode],
    values: Values,
    *,
    used: bool,
) -> None:
    """Refuse a number that the loop uses for more than counting, or what follows it (``used``).

    ``tests`` are the expressions that become predicates: only there it may be compared.
    """
    fact = values.outside(name)
    if fact is None or fact.kind not in ("int", "float"):
        raise Refusal(f"`{name}` is carried from one iteration to the next, and is no tensor")
    forms: list[Fact | None] = [None]
    if fact.kind == "float":
        forms = [_HALVED, _RATE] if _is_halved(site, name, loop) else [_RATE]
    for form in forms:
        if form is not None:
            values.named[name] = form
        try:
            check_inside(site, name, loop, tests, values, is_float=fact.kind == "float")
            if used:
                _check_later_uses(site, name, loop, values)
        except Refusal:
            if form is forms[-1]:
                raise
            continue
        return


def check_inside(
    site: Site,
    name: str,
    loop: cst.CSTNode,
    tests: Collection[cst.CSTNode],
    values: Values,
    *,
    is_float: bool = False,
) -> None:
    """Refuse where the loop uses the number for more than counting."""
    for node in walk(loop):
        if isinstance(node, cst.Name) and node.value == name:
            holder = site.parent(node)
            if isinstance(holder, cst.Attribute) and holder.attr is node:
                continue
            if isinstance(holder, cst.Arg) and holder.keyword is node:
                continue
            if not _is_binding(site, node, values) and not _is_use(site, node, tests, values):
                what = "a Python float; start it as a tensor" if is_float else "a number"
                advice = ""
                if isinstance(holder, cst.Index):
                    advice = (
                        "; where all can be compared at once, `(t == x).int().argmax()` finds the"
                        " first, and `t.index_select(0, i)` takes a tensor as its index"
                    )
                raise Refusal(
                    f"`{name}` is {what}, and `{_around(site, node)}` may treat a tensor otherwise"
                    + advice
                )


def _check_later_uses(site: Site, name: str, loop: cst.CSTNode, values: Values) -> None:
    """Refuse a number that is more than an operand of tensor arithmetic after the loop."""
    if any(isinstance(parent, cst.For | cst.While) for parent in site.ancestors(loop)):
        raise Refusal(f"`{name}` is used in another iteration of the loop around this one")
    inside = set(walk(loop))
    end = site.span(loop).end_line
    assert site.function is not None
    for node in site.places_of(name, site.function.body):
        if node in inside or site.span(node).line <= end:
            continue
        if not _is_use(site, node, (), values):
            raise Refusal(
                f"`{name}` is a Python number in `{_around(site, node)}` afterwards, and would be"
                " a tensor by then; start it as one (`torch.zeros((), dtype=torch.int64)`), or"
                " count outside of the compiled function"
            )


def _around(site: Site, node: cst.CSTNode) -> str:
    """The expression or line around the name, for a message."""
    found: cst.CSTNode = node
    for parent in site.ancestors(node):
        inner = cst.Arg | cst.Index | cst.SubscriptElement | cst.ComparisonTarget
        if not isinstance(parent, cst.BaseExpression | cst.BaseSmallStatement | inner):
            break
        found = parent
    return code(found).strip()


def _is_binding(site: Site, node: cst.Name, values: Values) -> bool:
    """``i += 1`` or the left side of ``i = i + 1``."""
    holder = site.parent(node)
    if _is_rate(node, values):
        return _is_rate_binding(site, node, holder)
    if isinstance(holder, cst.AugAssign) and holder.target is node:
        divides = isinstance(holder.operator, cst.DivideAssign)
        known = type(holder.operator) in _AUGMENTED and not divides
        return known and _is_int(holder.value, values)
    if isinstance(holder, cst.AssignTarget):
        assignment = site.parent(holder)
        return (
            isinstance(assignment, cst.Assign)
            and len(assignment.targets) == 1
            and isinstance(assignment.value, cst.BinaryOperation)
            and isinstance(assignment.value.operator, _ARITHMETIC)
            and _is_int(assignment.value, values)
        )
    return False


def _is_rate(node: cst.Name, values: Values) -> bool:
    return tensor_of(node.value, values) is not _COUNTER


def _is_halved(site: Site, name: str, loop: cst.CSTNode) -> bool:
    """Whether the float is always a power of two."""
    function = site.function
    if function is None or name in parameters_of(function.params):
        return False
    inside = set(walk(loop))
    for node in walk(function.body):
        if not isinstance(node, cst.BaseSmallStatement) or name not in activity(node).bound:
            continue
        match node:
            case cst.Assign(value=value) if node not in inside:
                number = number_of(value)
                if not isinstance(number, float) or not _is_power_of_two(number):
                    return False
            case cst.Assign(value=cst.BinaryOperation(left=left, operator=operator, right=right)):
                scales = isinstance(operator, cst.Multiply | cst.Divide)
                factor = number_of(left if number_of(right) is None else right)
                if not scales or not _is_power_of_two(factor):
                    return False
            case cst.AugAssign(operator=cst.MultiplyAssign() | cst.DivideAssign(), value=value):
                if not _is_power_of_two(number_of(value)):
                    return False
            case _:
                return False
    return True


def _is_power_of_two(number: int | float | None) -> bool:
    return number is not None and number > 0 and math.frexp(number)[0] == 0.5


def _is_rate_binding(site: Site, node: cst.Name, holder: cst.CSTNode | None) -> bool:
    """``lr *= 0.5``, or the left side of ``lr = lr * 0.5``: with literals only."""
    if isinstance(holder, cst.AugAssign) and holder.target is node:
        operator = _AUGMENTED.get(type(holder.operator))
        return operator is not None and _takes(operator(), number_of(holder.value))
    assignment = None if holder is None else site.parent(holder)
    match assignment:
        case cst.Assign(targets=[only], value=cst.BinaryOperation() as value) if only is holder:
            return _is_scaled(value, node.value)
    return False


def _is_scaled(node: cst.BaseExpression, name: str) -> bool:
    """``lr * 0.5``: arithmetic of the number itself and literals, which never raises."""
    match node:
        case cst.Name(value=value):
            return value == name
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            one, other = number_of(left), number_of(right)
            if other is not None:
                return _takes(operator, other) and _is_scaled(left, name)
            divides = isinstance(operator, cst.Divide)
            return (
                one is not None
                and not divides
                and _takes(operator, one)
                and _is_scaled(right, name)
            )
    return False


def _takes(operator: cst.BaseBinaryOp, number: int | float | None) -> bool:
    """Whether a float and this literal give what a float64 tensor and the literal give."""
    if number is None or abs(number) > 2**53:
        return False
    if isinstance(operator, cst.Divide):
        return number != 0
    return isinstance(operator, cst.Add | cst.Subtract | cst.Multiply)


def _is_rate_use(
    site: Site, node: cst.BaseExpression, tests: Collection[cst.CSTNode], values: Values
) -> bool:
    """Whether a float64 tensor without dimensions is as good as the float here."""
    holder = site.parent(node)
    match holder:
        case cst.BinaryOperation(operator=operator):
            other = holder.left if holder.right is node else holder.right
            if number_of(other) is not None:
                divides = isinstance(operator, cst.Divide) and holder.right is node
                taken = not divides and _takes(operator, number_of(other))
                if tensor_of(_root(node), values) is _HALVED:
                    scales = isinstance(operator, cst.Multiply | cst.Divide)
                    taken = taken and scales and _is_power_of_two(number_of(other))
                return taken and (
                    _is_bound(site, holder) or _is_rate_use(site, holder, tests, values)
                )
            plain = cst.Add | cst.Subtract | cst.Multiply | cst.Divide
            return isinstance(operator, plain) and _outranks(other, node, values)
        case cst.Comparison(comparisons=[target]):
            return _is_compared(site, holder, node, target.comparator, tests, values)
        case cst.ComparisonTarget():
            whole = site.parent(holder)
            return (
                isinstance(whole, cst.Comparison)
                and len(whole.comparisons) == 1
                and _is_compared(site, whole, node, whole.left, tests, values)
            )
    return False


def _is_bound(site: Site, node: cst.CSTNode) -> bool:
    """Whether the expression is what the number itself is bound to; that is checked as such."""
    match site.parent(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return node_names(node, name)
    return False


def _is_compared(
    site: Site,
    node: cst.Comparison,
    number: cst.BaseExpression,
    other: cst.BaseExpression,
    tests: Collection[cst.CSTNode],
    values: Values,
) -> bool:
    if not isinstance(node.comparisons[0].operator, _ORDER):
        return False
    if _outranks(other, number, values):
        return True
    bound = number_of(other)
    if bound is None or not _is_of_test(site, node, tests):
        return False
    # The nearest number in float32 may be one that halving comes to.
    short = _is_power_of_two(bound) or round(math.frexp(bound)[0] * 1024) % 1024 not in (0, 512)
    wide = tensor_of(_root(number), values) is not _HALVED
    return wide or (short and isinstance(number, cst.Name) and 1e-30 < bound < 1e30)


def _outranks(node: cst.BaseExpression, number: cst.BaseExpression, values: Values) -> bool:
    """Whether the tensor alone decides about the dtype, not the tensor of the number."""
    fact = values.fact(node)
    if fact is None or not fact.is_tensor or fact.dtype not in _EXACT:
        return False
    return bool(fact.shape) or tensor_of(_root(number), values) is _HALVED


def _root(number: cst.BaseExpression) -> str:
    """The one name in arithmetic of a number and literals."""
    return next(node.value for node in walk(number) if isinstance(node, cst.Name))


def _is_use(
    site: Site, node: cst.BaseExpression, tests: Collection[cst.CSTNode], values: Values
) -> bool:
    """Whether a tensor is as good as the number here."""
    holder = site.parent(node)
    if isinstance(node, cst.Name) and _is_rate(node, values):
        return _is_rate_use(site, node, tests, values)
    match holder:
        case cst.Assign(value=value):
            # Checked as a binding of the counter itself; anything else would keep a tensor.
            target = holder.targets[0].target
            return value is node and isinstance(target, cst.Name) and node_names(node, target.value)
        case cst.BinaryOperation(operator=operator):
            other = holder.left if holder.right is node else holder.right
            fact = values.fact(other)
            if fact is not None and fact.is_tensor:
                # Beside these tensors neither an int nor an int64 tensor changes the dtype.
                if fact.dtype == "torch.int64":
                    return isinstance(operator, _ARITHMETIC)
                return fact.dtype in _EXACT and isinstance(
                    operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide
                )
            return (
                isinstance(operator, _ARITHMETIC)
                and _is_int(other, values)
                and _is_use(site, holder, tests, values)
            )
        case cst.Comparison():
            return _is_tested(site, holder, tests, values)
        case cst.ComparisonTarget():
            whole = site.parent(holder)
            return isinstance(whole, cst.Comparison) and _is_tested(site, whole, tests, values)
    return False


def _is_tested(
    site: Site, node: cst.Comparison, tests: Collection[cst.CSTNode], values: Values
) -> bool:
    if len(node.comparisons) != 1 or not isinstance(node.comparisons[0].operator, _ORDER):
        return False
    for side in (node.left, node.comparisons[0].comparator):
        fact = values.fact(side)
        if fact is None or fact.kind not in ("int", "float", "tensor"):
            return False
        if fact.kind == "tensor" and fact.dtype not in _COMPARED:
            return False
        if fact.kind == "float" and not isinstance(side, cst.BaseNumber):
            return False
    return _is_of_test(site, node, tests)


def _is_of_test(site: Site, node: cst.CSTNode, tests: Collection[cst.CSTNode]) -> bool:
    """Whether the expression is a test, or an operand of its `and`, `or` and `not`."""
    child = node
    while child not in tests:
        above = site.parent(child)
        if not isinstance(above, cst.BooleanOperation | cst.UnaryOperation):
            return False
        child = above
    return True


def _is_int(node: cst.BaseExpression, values: Values) -> bool:
    match node:
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract() | cst.Multiply()):
            return _is_int(node.left, values) and _is_int(node.right, values)
        case cst.Integer() | cst.Name():
            fact = values.fact(node)
            return fact is not None and fact.kind == "int"
    return False


def node_names(node: cst.CSTNode, name: str) -> bool:
    """Whether the name stands anywhere in the node."""
    return any(isinstance(inner, cst.Name) and inner.value == name for inner in walk(node))


def as_tensors(node: cst.CSTNode, names: Collection[str], values: Values) -> cst.CSTNode:
    """The node with counters in it known as tensors, and ``i += 1`` written as ``i = i + 1``.

    What does not name a counter keeps its identity, and with it what was recorded about it.
    """
    if not names:
        return node
    new = node.visit(_AsTensors(names, values))
    assert isinstance(new, cst.CSTNode)
    return new


class _AsTensors(cst.CSTTransformer):
    def __init__(self, names: Collection[str], values: Values) -> None:
        super().__init__()
        self._names = names
        self._values = values

    def on_visit(self, node: cst.CSTNode) -> bool:
        return any(node_names(node, name) for name in self._names)

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        match updated_node:
            case cst.Name(value=name) if name in self._names and not updated_node.lpar:
                return self._values.before(name)
            case cst.AugAssign(target=cst.Name(value=name), value=value) if name in self._names:
                operator = _AUGMENTED[type(updated_node.operator)]()
                total = cst.BinaryOperation(self._values.before(name), operator, grouped(value))
                target = cst.AssignTarget(cst.Name(name))
                return cst.Assign([target], total, semicolon=updated_node.semicolon)
        return updated_node
