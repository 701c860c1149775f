"""Expressions whose evaluation cannot fail because of what the tensors hold.

Statements behind a test that become branchless are evaluated even where the program would not have
reached them.  An operation whose failure depends on shapes alone fails while torch traces, and the
rewrite is dropped; one that looks at the data (a factorisation, an index) would fail in the run.
"""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import words

from .texts import number_of
from .values import Values

_STEADY = words(
    """abs absolute neg negative sign square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10
    log1p sin cos tan sinh cosh tanh asin acos atan sigmoid relu relu6 leaky_relu elu selu gelu silu
    softplus softsign hardtanh erf erfc floor ceil round trunc frac clamp clip clamp_min clamp_max
    nan_to_num pow add sub subtract mul multiply div divide true_divide maximum minimum fmax fmin
    where isnan isinf isfinite isneginf isposinf isclose logical_not logical_and logical_or
    logical_xor eq ne lt le gt ge sum mean prod norm var std any all max min amax amin argmax argmin
    logsumexp cumsum softmax log_softmax normalize clone detach zeros_like ones_like full_like
    contiguous view reshape flatten squeeze unsqueeze transpose permute t expand flip roll lerp
    double float half bfloat16 item dot mv mm bmm matmul outer"""
)
_OPERATORS = (
    cst.Add
    | cst.Subtract
    | cst.Multiply
    | cst.Divide
    | cst.Power
    | cst.MatrixMultiply
    | cst.BitAnd
    | cst.BitOr
)


def cannot_fail(node: cst.BaseExpression, values: Values) -> bool:
    """Whether evaluating the expression raises no error, whatever data its tensors hold."""
    match node:
        case cst.Name() | cst.BaseNumber():
            return True
        case cst.Attribute(value=inner, attr=cst.Name(value="T" | "mT" | "shape" | "dtype")):
            return cannot_fail(inner, values)
        case cst.Attribute(value=inner):
            return isinstance(inner, cst.Name) and values.fact(node) is not None
        case cst.Subscript(value=inner):
            return (
                is_constant_index(node) and values.is_tensor(inner) and cannot_fail(inner, values)
            )
        case cst.UnaryOperation():
            return cannot_fail(node.expression, values)
        case cst.BooleanOperation():
            return cannot_fail(node.left, values) and cannot_fail(node.right, values)
        case cst.Comparison():
            sides = [node.left, *(target.comparator for target in node.comparisons)]
            return all(cannot_fail(side, values) for side in sides)
        case cst.BinaryOperation(operator=operator) if isinstance(operator, _OPERATORS):
            sides = [node.left, node.right]
            return all(cannot_fail(side, values) for side in sides) and _sound(node, values)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name), value=receiver)):
            arguments = [arg.value for arg in node.args]
            if any(arg.star for arg in node.args) or name not in _STEADY:
                return False
            if not values.of_torch(node):
                if not values.is_tensor(receiver):
                    return False
                arguments.append(receiver)
            return all(_argument(argument, values) for argument in arguments)
    return False


def is_constant_index(node: cst.Subscript) -> bool:
    """Whether all indices are numbers, or slices of numbers."""
    return all(_is_constant(element.slice) for element in node.slice)


def _is_constant(node: cst.BaseSlice) -> bool:
    """Whether the index is a number, or a slice of numbers."""
    match node:
        case cst.Index(value=value):
            return number_of(value) is not None
        case cst.Slice():
            bounds = (node.lower, node.upper, node.step)
            return all(bound is None or number_of(bound) is not None for bound in bounds)
    return False


def _sound(node: cst.BinaryOperation, values: Values) -> bool:
    """Python divides by zero, and overflows, with an error; tensors of floats do neither."""
    tensors = [side for side in (node.left, node.right) if values.is_tensor(side)]
    if isinstance(node.operator, cst.Divide) and not tensors:
        return bool(number_of(node.right))
    if isinstance(node.operator, cst.Power):
        facts = [values.fact(side) for side in tensors]
        return any(fact is not None and fact.dtype in FLOAT_DTYPES for fact in facts)
    return True


def _argument(node: cst.BaseExpression, values: Values) -> bool:
    if isinstance(node, cst.Tuple | cst.List):
        return all(_argument(element.value, values) for element in node.elements)
    return cannot_fail(node, values)
