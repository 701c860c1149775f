"""From the test of a Python branch to a predicate that ``torch.cond`` and ``torch.where`` take.

A test is split into a Python part, which stays a Python ``if``, and a tensor part, which becomes
one tensor expression of exactly one element.  Evaluation order and short-circuiting are kept: an
operand is evaluated early or in vain only where that cannot be noticed.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from gbfix.analysis.tree import code

from .values import Values


class Refusal(Exception):
    """Why a codemod does not apply, in words for the user (or empty: nothing worth saying)."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """A test, split: ``if python: <test tensor> else: <as if tensor were python's value>``.

    ``joint`` is ``and`` or ``or`` where there is a Python part: with ``and`` the branch is decided
    by ``tensor`` when ``python`` is true (else it is the false one), with ``or`` when it is false.
    ``node`` is the tensor part as it was written, where that is one expression.
    """

    tensor: str
    python: str = ""
    joint: str = ""
    node: cst.BaseExpression | None = None


def is_data_dependent(test: cst.BaseExpression, values: Values) -> bool:
    """Whether the truth of the test surely depends on a tensor's data."""
    match test:
        case cst.UnaryOperation(operator=cst.Not()):
            return is_data_dependent(test.expression, values)
        case cst.BooleanOperation():
            return is_data_dependent(test.left, values) or is_data_dependent(test.right, values)
        case cst.Comparison(comparisons=targets):
            if any(isinstance(t.operator, cst.Is | cst.IsNot) for t in targets):
                return False
            sides = [test.left, *(target.comparator for target in targets)]
            return values.is_tensor(test) or any(
                values.is_tensor(side) or scalar_read(side, values) is not None for side in sides
            )
    return values.is_tensor(test) or scalar_read(test, values) is not None


def split(test: cst.BaseExpression, values: Values) -> Condition:
    """The condition of a test, or `Refusal`."""
    if isinstance(test, cst.BooleanOperation):
        return _split_boolean(test, values)
    return Condition(predicate(test, values), node=test)


def predicate(test: cst.BaseExpression, values: Values) -> str:
    """Source text of a tensor that holds the truth of the test, or `Refusal`."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return f"{values.torch}.logical_not({predicate(inner, values)})"
        case cst.BooleanOperation():
            return _both(test, values)
        case cst.Comparison(comparisons=[_, _, *_]):
            return _chained(test, values)
    read = scalar_read(test, values)
    if read is not None:
        return _truth(read.tensor, values, read.text)
    if isinstance(test, cst.Comparison):
        compared = _comparison_of_scalars(test, values)
        if compared is not None:
            return compared
    if not values.is_tensor(test):
        raise Refusal(f"it is not known whether `{code(test)}` is a tensor")
    return _truth(test, values)


@dataclasses.dataclass(frozen=True)
class ScalarRead:
    """A read of a tensor's one value: the tensor as it was written, and the text to use for it."""

    tensor: cst.BaseExpression
    text: str


def scalar_read(node: cst.BaseExpression, values: Values) -> ScalarRead | None:
    """The tensor whose one value is read: ``t`` of ``t.item()``, ``bool(t)``, or of a name.

    A name counts where it was bound to ``t.item()`` (see `scalars`).
    """
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="item")), args=[]):
            return ScalarRead(inner, _primary(inner)) if values.is_tensor(inner) else None
        case cst.Call(func=cst.Name(value="bool"), args=[arg]):
            if arg.keyword is None and not arg.star and values.is_tensor(arg.value):
                return ScalarRead(arg.value, _primary(arg.value))
        case cst.Name(value=name) if name in values.scalars:
            tensor, text = values.scalars[name]
            return ScalarRead(tensor, text)
    return None


def _primary(node: cst.BaseExpression) -> str:
    return code(node) if _is_primary(node) else f"({code(node)})"


# -- the parts -------------------------------------------------------------------------------


def _split_boolean(node: cst.BooleanOperation, values: Values) -> Condition:
    joint = "and" if isinstance(node.operator, cst.And) else "or"
    operands = _operands(node, type(node.operator))
    python = [op for op in operands if _is_python(op, values)]
    tensors = [op for op in operands if op not in python]
    if not python:
        return Condition(_both(node, values), node=node)
    # Python operands come to the front: only past operands whose evaluation nobody notices.
    last_python = max(operands.index(op) for op in python)
    overtaken = [op for op in operands[:last_python] if op in tensors]
    if overtaken:
        moved = [op for op in python if operands.index(op) > operands.index(overtaken[0])]
        if not all(values.is_total(op) for op in (*overtaken, *moved)):
            raise Refusal(
                f"`{code(node)}` mixes Python and tensor conditions in an order that cannot be kept"
            )
    text = f" {joint} ".join(_operand_text(op, joint) for op in python)
    if len(tensors) == 1:
        tensor = predicate(tensors[0], values)
    else:
        tensor = _combine(tensors, joint, values)
    return Condition(tensor, text, joint, tensors[0] if len(tensors) == 1 else None)


def _is_python(node: cst.BaseExpression, values: Values) -> bool:
    if is_data_dependent(node, values):
        return False
    fact = values.fact(node)
    if values.is_python(node) or (fact is not None and fact.kind not in _NO_TRUTH):
        return True
    raise Refusal(f"it is not known whether `{code(node)}` is a tensor")


#: Kinds whose truth may be data, or may be a tensor's on another run.
_NO_TRUTH = frozenset({"tensor", "mixed", "ndarray"})


def _both(node: cst.BooleanOperation, values: Values) -> str:
    joint = "and" if isinstance(node.operator, cst.And) else "or"
    return _combine(_operands(node, type(node.operator)), joint, values)


def _combine(operands: list[cst.BaseExpression], joint: str, values: Values) -> str:
    for operand in operands[1:]:
        if not values.is_total(operand):
            raise Refusal(
                f"`{code(operand)}` may fail or have an effect where Python's `{joint}` skips it"
            )
    symbol = "&" if joint == "and" else "|"
    texts = []
    for operand in operands:
        text = predicate(operand, values)
        texts.append(text if _is_primary(cst.parse_expression(text)) else f"({text})")
    return f" {symbol} ".join(texts)


def _operands(
    node: cst.BaseExpression, operator: type[cst.BaseBooleanOp]
) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, operator):
        return [*_operands(node.left, operator), *_operands(node.right, operator)]
    return [node]


def _operand_text(node: cst.BaseExpression, joint: str) -> str:
    text = code(node)
    return f"({text})" if isinstance(node, cst.BooleanOperation) and not node.lpar else text


def _truth(node: cst.BaseExpression, values: Values, text: str = "") -> str:
    """The tensor's truth: itself if it is bool, else whether it differs from zero (NaN does)."""
    if not values.one_element(node):
        raise Refusal(f"`{code(node)}` is not known to have exactly one element")
    if values.is_bool_tensor(node):
        return text or code(node)
    return f"{text or _primary(node)} != 0"


def _chained(node: cst.Comparison, values: Values) -> str:
    """``a < t < b`` as ``(a < t) & (t < b)``: what stands in the middle is evaluated twice."""
    left, texts = node.left, []
    for target in node.comparisons:
        if isinstance(target.operator, cst.Is | cst.IsNot | cst.In | cst.NotIn):
            raise Refusal(f"`{code(node)}` is no comparison of values")
        if not isinstance(target.comparator, cst.Name | cst.BaseNumber):
            last = target is node.comparisons[-1]
            if not last and not values.effects(target.comparator).pure:
                raise Refusal(f"`{code(target.comparator)}` would have to be evaluated twice")
            if last and not values.is_total(target.comparator):
                raise Refusal(f"`{code(target.comparator)}` may fail where Python skips it")
        pair = node.with_changes(left=left, comparisons=[target], lpar=(), rpar=())
        if not (values.is_tensor(left) or values.is_tensor(target.comparator)):
            raise Refusal(f"`{code(pair)}` is not known to compare tensors")
        if not all(
            isinstance(side, cst.BaseNumber) or values.one_element(side) or values.is_python(side)
            for side in (left, target.comparator)
        ):
            raise Refusal(f"`{code(pair)}` is not known to have exactly one element")
        texts.append(f"({code(pair)})")
        left = target.comparator
    return " & ".join(texts)


def _comparison_of_scalars(node: cst.Comparison, values: Values) -> str | None:
    """``t.item() > 0`` as ``t > 0``, where tensor and Python arithmetic surely agree."""
    (target,) = node.comparisons
    sides = [node.left, target.comparator]
    reads = [scalar_read(side, values) for side in sides]
    if not any(reads):
        return None
    if isinstance(target.operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
        raise Refusal(f"`{code(node)}` is no comparison of values")
    texts = []
    for side, read, other in zip(sides, reads, reversed(sides), strict=True):
        if read is None:
            if not isinstance(side, cst.BaseNumber | cst.UnaryOperation):
                raise Refusal(f"`{code(node)}` compares with something that is no literal")
            texts.append(code(side))
            continue
        if not values.one_element(read.tensor):
            raise Refusal(f"`{code(read.tensor)}` is not known to have exactly one element")
        dtype = _scalar_dtype(read.tensor, values)
        exact = _is_exact(other, dtype)
        if exact is None:
            raise Refusal(f"`{code(node)}` compares with something that is no literal")
        # `.item()` compares in double precision, a tensor in its own.
        texts.append(read.text if exact else f"{read.text}.double()")
    operator = code(target.operator).strip()
    return f"{texts[0]} {operator} {texts[1]}"


def _scalar_dtype(read: cst.BaseExpression, values: Values) -> str:
    fact = values.fact(read)
    if fact is not None and fact.dtype is not None:
        return fact.dtype
    if values.is_bool_tensor(read):
        return "torch.bool"
    raise Refusal(f"the dtype of `{code(read)}` is not known")


#: Integers up to here are exact in every floating dtype; float8 has less and is left alone.
_EXACT_UP_TO = {
    "torch.bfloat16": 256,
    "torch.float16": 2048,
    "torch.float32": 2**24,
    "torch.float64": 2**53,
}
_INTEGERS = {"torch.uint8": 8, "torch.int8": 7, "torch.int16": 15, "torch.int32": 31}


def _is_exact(literal: cst.BaseExpression, dtype: str) -> bool | None:
    """Whether the literal is exact in the dtype; None where even double would not do."""
    value = _number(literal)
    if value is None:
        return None
    if dtype in _EXACT_UP_TO:
        halves = value * 4
        return abs(value) <= _EXACT_UP_TO[dtype] / 4 and halves == int(halves)
    if dtype == "torch.bool":
        return True if value in (0, 1) and isinstance(value, int) else None
    if isinstance(value, int):
        bits = _INTEGERS.get(dtype, 63 if dtype == "torch.int64" else 0)
        return True if 0 <= value < 2**bits or -(2**bits) <= value < 0 else None
    if dtype in ("torch.int8", "torch.int16", "torch.int32", "torch.uint8"):
        return False
    return None


def _number(node: cst.BaseExpression) -> int | float | None:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _number(node.expression)
        return -inner if inner is not None else None
    if isinstance(node, cst.Integer | cst.Float):
        value: int | float = node.evaluated_value
        return value if abs(value) < float("inf") else None
    return None


def _is_primary(node: cst.BaseExpression) -> bool:
    """Whether the expression can be an operand of any operator as it stands."""
    return bool(node.lpar) or isinstance(
        node, cst.Name | cst.Attribute | cst.Call | cst.Subscript | cst.BaseNumber
    )
