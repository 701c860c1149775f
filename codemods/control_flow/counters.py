"""Python integers that a loop counts with, as tensors of one number.

``torch.while_loop`` carries tensors.  A counter may become one where every use in the loop treats
an ``int64`` tensor without dimensions as it treats the number.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from gbfix.analysis.build import grouped
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site, tensor

from .predicates import Refusal
from .values import Values

_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply
_AUGMENTED: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
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
COUNTER = tensor(dtype="torch.int64")


def check_counter(
    site: Site, name: str, loop: cst.CSTNode, tests: Collection[cst.CSTNode], values: Values
) -> None:
    """Refuse a number that the loop uses for more than counting.

    ``tests`` are the expressions that become predicates: only there it may be compared.
    """
    fact = values.outside(name)
    if fact is not None and fact.kind == "float":
        raise Refusal(
            f"`{name}` starts as a Python float; start it as a tensor, and give it one in the loop"
        )
    if fact is None or fact.kind != "int":
        raise Refusal(f"`{name}` is carried from one iteration to the next, and is no tensor")
    for node in walk(loop):
        if isinstance(node, cst.Name) and node.value == name:
            holder = site.parent(node)
            if isinstance(holder, cst.Attribute) and holder.attr is node:
                continue
            if isinstance(holder, cst.Arg) and holder.keyword is node:
                continue
            if not _is_binding(site, node, values) and not _is_use(site, node, tests, values):
                raise Refusal(f"`{name}` is a Python number that the loop not only counts with")


def _is_binding(site: Site, node: cst.Name, values: Values) -> bool:
    """``i += 1`` or the left side of ``i = i + 1``."""
    holder = site.parent(node)
    if isinstance(holder, cst.AugAssign) and holder.target is node:
        return type(holder.operator) in _AUGMENTED and _is_int(holder.value, values)
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


def _is_use(
    site: Site, node: cst.BaseExpression, tests: Collection[cst.CSTNode], values: Values
) -> bool:
    """Whether a tensor is as good as the number here."""
    holder = site.parent(node)
    match holder:
        case cst.Assign(value=value):
            # Checked as a binding of the counter itself; anything else would keep a tensor.
            target = holder.targets[0].target
            return value is node and isinstance(target, cst.Name) and node_names(node, target.value)
        case cst.BinaryOperation(operator=operator):
            other = holder.left if holder.right is node else holder.right
            fact = values.fact(other)
            if fact is not None and fact.is_tensor:
                # Beside a floating tensor neither an int nor an int64 tensor changes the dtype.
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
    child: cst.CSTNode = node
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
