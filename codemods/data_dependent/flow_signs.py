"""What the text of a tensor says of its numbers: counts, squares, whole numbers, new memory."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis import torch_names
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

from .flow_numbers import COUNTS

#: What gives an int64 whatever it is given.
_LONG = words(
    """argmax argmin count_nonzero argsort nonzero bincount numel long sum prod cumsum randint
    randperm"""
)


def is_not_negative(site: Site, node: cst.BaseExpression) -> bool:
    """Whether no element of a tensor is below zero, by the text: squares, norms, sums of them."""
    match node:
        case cst.Name() | cst.Attribute():
            fact = site.fact(node)
            return fact is not None and fact.dtype == "torch.bool"
        case cst.BinaryOperation(operator=cst.Power(), right=cst.Integer() as power):
            return power.evaluated_value % 2 == 0
        case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Multiply(), right=right):
            return is_not_negative(site, left) and is_not_negative(site, right)
        case cst.Comparison():
            return True
        case cst.Call(func=cst.Attribute(value=base, attr=attr), args=args):
            if attr.value in ("pow", "pow_"):
                given = args[0].value if args else None
                return isinstance(given, cst.Integer) and given.evaluated_value % 2 == 0
            if attr.value in words("sum mean max min amax amin sqrt detach float double"):
                return is_not_negative(site, base)
            return attr.value in ("abs", "square", "norm", "std", "var", "exp", "sigmoid", "relu")
    return False


def is_part_of(node: cst.BaseExpression, name: str) -> bool:
    """Whether an expression is the named tensor, in another shape at most."""
    match node:
        case cst.Name(value=value):
            return value == name
        case (
            cst.Subscript(value=base)
            | cst.Call(
                func=cst.Attribute(
                    value=base,
                    attr=cst.Name("unsqueeze" | "view" | "reshape" | "expand" | "flatten"),
                )
            )
        ):
            return is_part_of(base, name)
    return False


def is_long(value: cst.BaseExpression) -> bool:
    """Whether the tensor is of int64 whatever its parts are."""
    match value:
        case cst.Call(func=cst.Attribute(attr=attr), args=args):
            asked = any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in args)
            return attr.value in _LONG and not asked
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            plain = isinstance(operator, _KEEPS_LONG)
            numbers = [isinstance(side, cst.Integer) or is_long(side) for side in (left, right)]
            return plain and all(numbers) and (is_long(left) or is_long(right))
        case (
            cst.Subscript(
                value=base, slice=[cst.SubscriptElement(slice=cst.Index(cst.Integer(value="1")))]
            )
            | cst.Attribute(value=base, attr=cst.Name("indices"))
        ):
            return finds_places(base)
    return False


def finds_places(value: cst.BaseExpression) -> bool:
    """Whether a call gives values and where they stood: ``scores.topk(3)``, ``x.max(dim=1)``."""
    match value:
        case cst.Call(func=cst.Attribute(attr=attr), args=args):
            along = any(
                isinstance(arg.value, cst.Integer | cst.UnaryOperation)
                or (arg.keyword is not None and arg.keyword.value == "dim")
                for arg in args
            )
            # ``x.max(y)`` compares two tensors.
            always = attr.value not in torch_names.FULL_REDUCTIONS
            return attr.value in _PLACES and (along or always)
    return False


#: Give two tensors: values, and int64 places of these.
_PLACES = torch_names.PAIR_REDUCTIONS - {"aminmax"}


_KEEPS_LONG = cst.Add | cst.Subtract | cst.Multiply | cst.FloorDivide | cst.Modulo


def counts(value: cst.BaseExpression) -> bool:
    """Whether the tensor is a count or a position by its text: never negative."""
    match value:
        case cst.Call(func=cst.Attribute(value=base, attr=attr)):
            if attr.value == "sum":
                return is_mask(base)
            return attr.value in COUNTS
        case cst.Subscript(value=cst.Subscript() | cst.Call() as base):
            return counts(base)
    return False


def is_mask(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Comparison):
        return True
    match node:
        case cst.UnaryOperation(operator=cst.BitInvert(), expression=inner):
            return is_mask(inner)
        case cst.Call(func=cst.Attribute(attr=attr)):
            return attr.value in torch_names.PREDICATES or attr.value == "bool"
    return False


def is_counter(site: Site, value: cst.BaseExpression) -> bool:
    """Whether a buffer of the class begins at a number that is not negative, and only grows."""
    around = site.class_of(value)
    if around is None or not isinstance(value, cst.Attribute):
        return False
    text = code(value)
    name = value.attr.value
    born = False
    for node in walk(around):
        match node:
            case cst.Call(
                func=cst.Attribute(attr=cst.Name("register_buffer")), args=[first, second, *_]
            ):
                if (
                    isinstance(first.value, cst.SimpleString)
                    and first.value.evaluated_value == name
                ):
                    born = starts_at_zero(second.value)
                    if not born:
                        return False
            case cst.Assign(targets=targets) if any(code(t.target) == text for t in targets):
                return False
            case cst.AugAssign(target=target, operator=operator, value=step):
                if code(target) == text and not (
                    isinstance(operator, cst.AddAssign) and isinstance(step, cst.Integer)
                ):
                    return False
            case cst.Call(func=cst.Attribute(value=base, attr=attr), args=args):
                if code(base) == text and attr.value.endswith("_"):
                    grows = attr.value == "add_" and args and isinstance(args[0].value, cst.Integer)
                    if not grows and attr.value != "zero_":
                        return False
    return born


def starts_at_zero(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("zeros" | "ones"))):
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name("tensor")), args=[first, *_]):
            return isinstance(first.value, cst.Integer | cst.Float)
    return False


def is_fresh(value: cst.BaseExpression) -> bool:
    """Whether the tensor is new memory, that nobody changes between the read and the use."""
    match value:
        case cst.BinaryOperation():
            return True
        case cst.Call(func=cst.Attribute(attr=attr)):
            return attr.value in torch_names.FULL_REDUCTIONS | torch_names.ELEMENTWISE | words(
                "quantile nanquantile std var norm trace bincount"
            )
    return False
