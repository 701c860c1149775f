"""``min`` and ``max`` of a tensor and a number, and ``sorted`` of two tensors, as a tensor.

Python compares the two and takes one of them; the same comparison selects here, so that NaN and
equal values come out the same.  ``min`` and ``max`` of tensors alone are Dynamo's.
"""

from __future__ import annotations

from typing import cast

import libcst as cst

from gbfix.analysis.tree import code, walk

from .context import Context
from .numbers import beside_number

_FIRST = {"0": True, "-2": True, "1": False, "-1": False}


def picked(node: cst.CSTNode, ctx: Context, *, wide: bool = False) -> cst.BaseExpression | None:
    """The expression as a tensor of the one that Python picks; None where it picks none.

    ``wide`` keeps all digits of a number, in float64: its users round no more than a number's.
    """
    match node:
        case cst.Subscript(value=cst.Call() as call, slice=[element]):
            where = code(element.slice).strip()
            pair = _pair(call, "sorted", ctx)
            if pair is None or where not in _FIRST or not all(_point(it, ctx) for it in pair):
                return None
            one, other = pair
            taken = (other, one) if _FIRST[where] else (one, other)
            return _where(f"{_side(other)} < {_side(one)}", *taken, ctx)
        case cst.Call():
            for kind, sign in (("min", "<"), ("max", ">")):
                pair = _pair(node, kind, ctx)
                if pair is None:
                    continue
                one, other = pair
                if wide and _point(one, ctx):
                    one = cst.parse_expression(f"{_tight(one)}.double()")
                elif wide and _point(other, ctx):
                    other = cst.parse_expression(f"{_tight(other)}.double()")
                if _point(one, ctx) and ctx.is_number(other):
                    if _is_no_nan(other, ctx):
                        # Python keeps the first where neither comes first; so does clamp.
                        keyword = "max" if kind == "min" else "min"
                        return cst.parse_expression(f"{_tight(one)}.clamp({keyword}={code(other)})")
                    return _where(f"{_side(one)} {_opposite(sign)} {_side(other)}", other, one, ctx)
                if ctx.is_number(one) and _point(other, ctx):
                    return _where(f"{_side(other)} {sign} {_side(one)}", other, one, ctx)
    return None


def with_picks(node: cst.BaseExpression, ctx: Context, dtype: str) -> cst.BaseExpression:
    """The expression with what is picked in it as tensors, where that keeps the number's digits.

    ``dtype`` is the one that a number has to have that is given as the whole of it, "" where its
    users could tell it from a number.
    """
    if picked(node, ctx) is not None:
        wide = dtype.endswith("float64")
        return (picked(node, ctx, wide=wide) if dtype else None) or node

    class Picks(cst.CSTTransformer):
        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
            return self.made(original_node) or updated_node

        def leave_Subscript(
            self, original_node: cst.Subscript, updated_node: cst.Subscript
        ) -> cst.BaseExpression:
            return self.made(original_node) or updated_node

        def made(self, inner: cst.BaseExpression) -> cst.BaseExpression | None:
            if picked(inner, ctx) is None:
                return None
            beside = beside_number(ctx, inner)
            facts = [ctx.fact(it) for it in beside or ()]
            # Beside a tensor with dimensions, a number of any width leaves the dtype as it is.
            if not facts or any(fact is None or not fact.shape for fact in facts):
                return None
            return picked(inner, ctx, wide=True)

    return cast(cst.BaseExpression, node.visit(Picks()))


def _is_no_nan(node: cst.BaseExpression, ctx: Context) -> bool:
    fact = ctx.fact(node)
    written = isinstance(node, cst.Integer | cst.Float)
    return written or (fact is not None and fact.kind in ("int", "bool"))


def _opposite(sign: str) -> str:
    return ">" if sign == "<" else "<"


def picks(node: cst.CSTNode, ctx: Context) -> bool:
    """Whether a part of the expression is picked so."""
    return any(picked(inner, ctx) is not None for inner in walk(node))


def _pair(
    call: cst.Call, name: str, ctx: Context
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    if ctx.resolve(call.func).removeprefix("builtins.") != name:
        return None
    if any(arg.keyword is not None or arg.star for arg in call.args):
        return None
    values = [arg.value for arg in call.args]
    match values:
        case [cst.Tuple(elements=parts) | cst.List(elements=parts)]:
            if not all(isinstance(part, cst.Element) for part in parts):
                return None
            values = [part.value for part in parts]
        case _ if name == "sorted":
            return None
    return (values[0], values[1]) if len(values) == 2 else None


def _point(node: cst.BaseExpression, ctx: Context) -> bool:
    fact = ctx.fact(node)
    return fact is not None and fact.is_tensor and fact.shape == ()


def _where(
    test: str, yes: cst.BaseExpression, no: cst.BaseExpression, ctx: Context
) -> cst.BaseExpression:
    return cst.parse_expression(f"{ctx.torch}.where({test}, {code(yes)}, {code(no)})")


def _side(node: cst.BaseExpression) -> str:
    return code(node) if isinstance(node, cst.BinaryOperation) else _tight(node)


def _tight(node: cst.BaseExpression) -> str:
    tight = cst.Name | cst.Attribute | cst.Call | cst.Subscript | cst.Integer | cst.Float
    return code(node) if node.lpar or isinstance(node, tight) else f"({code(node)})"
