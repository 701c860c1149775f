"""``t in (1, 2)``, ``1 in t`` and ``t in tensors`` as predicates of a graph."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.names import fresh
from gbfix.analysis.tree import code

from .refusal import Condition, Refusal
from .texts import elements, number_of, primary
from .values import Values

#: Dtypes that hold whole numbers only.
WHOLE = frozenset(
    {"torch.uint8", "torch.int8", "torch.int16", "torch.int32", "torch.int64", "torch.bool"}
)


def membership(node: cst.Comparison, values: Values) -> str:
    """``0.0 in t`` as ``(t == 0.0).any()``: what a tensor does when it is asked."""
    (target,) = node.comparisons
    negated = isinstance(target.operator, cst.NotIn)
    listed = alternatives(node, values)
    if listed is not None:
        symbol, operator = ("&", "!=") if negated else ("|", "==")
        if not values.one_element(node.left):
            raise Refusal(f"`{code(node.left)}` is not known to have exactly one element")
        left = primary(node.left)
        return f" {symbol} ".join(f"({left} {operator} {code(item)})" for item in listed)
    item, whole = values.fact(node.left), values.fact(target.comparator)
    if whole is None or not whole.is_tensor:
        raise Refusal(f"it is not known whether `{code(target.comparator)}` is a tensor")
    if item is None or item.kind not in ("int", "float", "bool", "tensor"):
        raise Refusal(f"it is not known what `{code(node.left)}` is")
    if not values.effects(node).pure:
        raise Refusal(f"`{code(node)}` may have an effect")
    text = f"({primary(target.comparator)} == {primary(node.left)}).any()"
    return f"{values.torch}.logical_not({text})" if negated else text


def alternatives(node: cst.Comparison, values: Values) -> list[cst.BaseExpression] | None:
    """The numbers of ``t in (1, 2)``: a tensor of integers is compared with each of them."""
    match node:
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.In() | cst.NotIn(), comparator=cst.Tuple() | cst.List() as parts
                )
            ],
        ) if values.is_tensor(left):
            fact, found = values.fact(left), elements(parts) or []
            if fact is None or fact.dtype not in WHOLE or not values.is_total(left):
                return None
            numbers = [number_of(item) for item in found]
            exact = all(isinstance(number, int) and abs(number) < 128 for number in numbers)
            if fact.dtype in ("torch.int32", "torch.int64"):
                exact = all(isinstance(number, int) and abs(number) < 2**31 for number in numbers)
            return found if found and exact else None
    return None


def among(test: cst.BaseExpression, values: Values) -> Condition | None:
    """``t in stops``, where those are whole numbers in tensors: whether there are some is Python's.

    Python asks for the same object first, and so finds a NaN that equals nothing; but no integer.
    """
    match test:
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.In() | cst.NotIn() as operator, comparator=cst.Name() as whole
                )
            ],
        ):
            fact, item = values.fact(whole), values.fact(left)
        case _:
            return None
    if fact is None or fact.type not in ("list", "tuple") or not fact.items or item is None:
        return None
    dtypes = {part.dtype for part in fact.items}
    points = all(part.is_tensor and part.shape == () for part in (*fact.items, item))
    if not points or len(dtypes) != 1 or not {item.dtype, *dtypes} <= WHOLE:
        return None
    if not values.effects(left).pure:
        return None
    name = fresh("item", activity(left).reads | {whole.value})
    text = f"{values.torch}.stack([{primary(left)} == {name} for {name} in {code(whole)}]).any()"
    if isinstance(operator, cst.NotIn):
        return Condition(f"{values.torch}.logical_not({text})", f"len({code(whole)}) == 0", "or")
    return Condition(text, f"len({code(whole)}) > 0", "and")
