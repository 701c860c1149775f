"""Whether gradients stay what they were, where torch computes them in another way than Python does.

Where a result is computed and then not taken (`torch.where`, a loop that had ended), its gradient
is zero.  That zero goes back through the computation, and an infinite or NaN derivative turns it
into NaN.  And the backward of ``torch.while_loop`` has a fault of its own (`each_on_its_own`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import walk, words

from .steady import is_constant_index
from .texts import number_of
from .values import Values

#: Operations whose derivative is finite for every input, NaN and infinities included.
_OF_ONE = words(
    """relu neg clone detach zeros_like ones_like sum mean cumsum view reshape flatten squeeze
    unsqueeze t transpose permute expand contiguous roll flip"""
)
_WITH_NUMBERS = words("clamp clip clamp_min clamp_max nan_to_num")


def zero_stays_zero(nodes: Iterable[cst.CSTNode], values: Values) -> bool:
    """Whether a gradient of zero is still zero once it has passed the values that nodes bind."""
    for node in nodes:
        for inner in walk(node):
            match inner:
                case cst.Assign(value=value) | cst.AugAssign(value=value):
                    if not stays(value, values):
                        return False
                case cst.AnnAssign(value=cst.BaseExpression() as value):
                    if not stays(value, values):
                        return False
                case cst.For() | cst.With() | cst.NamedExpr():
                    return False
    return True


def stays(node: cst.BaseExpression, values: Values) -> bool:
    """Whether a gradient of zero that goes back through the expression is still zero."""
    fact = values.fact(node)
    if fact is not None and fact.is_tensor and fact.dtype and fact.dtype not in FLOAT_DTYPES:
        return "complex" not in fact.dtype
    match node:
        case cst.Name() | cst.BaseNumber() | cst.Comparison():
            return True
        case cst.Tuple():
            return all(stays(element.value, values) for element in node.elements)
        case cst.UnaryOperation(operator=cst.Minus()):
            return stays(node.expression, values)
        case cst.Subscript(value=inner):
            return is_constant_index(node) and stays(inner, values)
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract()):
            return stays(node.left, values) and stays(node.right, values)
        case cst.BinaryOperation(operator=cst.Multiply()):
            return (_is_finite(node.left, values) and stays(node.right, values)) or (
                _is_finite(node.right, values) and stays(node.left, values)
            )
        case cst.BinaryOperation(operator=cst.Divide()):
            return bool(number_of(node.right)) and stays(node.left, values)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name), value=receiver)):
            arguments = [arg.value for arg in node.args]
            if values.of_torch(node):
                if name == "where" and len(arguments) == 3:
                    return all(stays(argument, values) for argument in arguments[1:])
                if not arguments:
                    return False
                receiver = arguments.pop(0)
            if name == "detach" and values.is_tensor(receiver):
                return True  # nothing goes back
            plain = name in _OF_ONE or (
                name in _WITH_NUMBERS and all(number_of(arg) is not None for arg in arguments)
            )
            return plain and values.is_tensor(receiver) and stays(receiver, values)
    return False


def _is_finite(node: cst.BaseExpression, values: Values) -> bool:
    """Whether the factor is surely a finite number: a literal, or an integer."""
    fact = values.fact(node)
    return number_of(node) is not None or (fact is not None and fact.kind == "int")


def each_on_its_own(
    nodes: Iterable[cst.CSTNode],
    floats: Collection[str],
    flags: Set[str],
    values: Values,
) -> bool:
    """Whether what each floating name gets from the nodes depends on no other floating tensor.

    ``flags`` are names of the codemod's own, of tensors that have no gradient.

    Measured on torch 2.13: a tensor that ``torch.while_loop`` carries and that starts without
    needing a gradient gets one from the last round only, though the body gives it one in every.
    """
    sources: dict[str, frozenset[str]] = {}
    for node in nodes:
        does = activity(node)
        found: set[str] = set()
        for name in does.reads if flags.isdisjoint(does.writes) else ():
            if name in sources:
                found |= sources[name]
            elif name in flags:
                continue
            elif name in floats or _may_need_gradients(name, values):
                found.add(name)
        simple = isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1
        if simple and isinstance(getattr(node.body[0], "value", None), cst.Comparison):  # type: ignore[attr-defined]
            found = set()  # a bool has no gradient
        for name in does.writes:
            before = sources.get(name, frozenset({name}) if name in floats else frozenset())
            sources[name] = frozenset(found) if simple else before | found
    return all(sources.get(name, frozenset()) <= {name} for name in floats)


def _may_need_gradients(name: str, values: Values) -> bool:
    fact = values.outside(name)
    if fact is None:
        return values.fact(cst.Name(name)) is None and name != values.torch
    if fact.is_tensor:
        return fact.dtype is None or fact.dtype in FLOAT_DTYPES or "complex" in fact.dtype
    return not fact.is_python_scalar and fact.kind not in ("pymodule", "function")
