"""``min`` and ``max`` of a tensor and a number, and ``sorted`` of two tensors, as a tensor.

Python compares the two and takes one of them; the same comparison selects here, so that NaN and
equal values come out the same.  ``min`` and ``max`` of tensors alone are Dynamo's.
"""

from __future__ import annotations

from typing import cast

import libcst as cst

from gbfix.analysis.tree import code, walk

from .context import Context

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
                    # Python keeps the first where neither comes before the other, as clamp does.
                    keyword = "max" if kind == "min" else "min"
                    return cst.parse_expression(f"{_tight(one)}.clamp({keyword}={code(other)})")
                if ctx.is_number(one) and _point(other, ctx):
                    if _of_whole_numbers(other, ctx):  # never NaN
                        keyword = "max" if kind == "min" else "min"
                        return cst.parse_expression(f"{_tight(other)}.clamp({keyword}={code(one)})")
                    return _where(f"{_side(other)} {sign} {_side(one)}", other, one, ctx)
    return None


def with_picks(node: cst.BaseExpression, ctx: Context, *, wide: bool) -> cst.BaseExpression:
    """The expression with all that is picked so in it as tensors."""
    if not picks(node, ctx):
        return node

    class Picks(cst.CSTTransformer):
        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
            return picked(updated_node, ctx, wide=wide) or updated_node

        def leave_Subscript(
            self, original_node: cst.Subscript, updated_node: cst.Subscript
        ) -> cst.BaseExpression:
            return picked(updated_node, ctx, wide=wide) or updated_node

    return cast(cst.BaseExpression, node.visit(Picks()))


def _of_whole_numbers(node: cst.BaseExpression, ctx: Context) -> bool:
    """Whether a sum or a quotient of counts: no call, and all tensors in it hold whole numbers."""
    leaves = cst.Name | cst.Attribute
    made = [part for part in walk(node) if isinstance(part, cst.Call)]
    if any(not code(part).endswith(".double()") or part is not node for part in made):
        return False
    facts = [ctx.fact(part) for part in walk(node) if isinstance(part, leaves)]
    dtypes = [fact.dtype or "" for fact in facts if fact is not None and fact.is_tensor]
    whole = ("torch.int", "torch.uint", "torch.bool")
    return bool(dtypes) and all(dtype.startswith(whole) for dtype in dtypes)


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
