"""Guards against what is not finite, seen by autograd.

``if torch.isnan(loss): loss = torch.zeros_like(loss)`` keeps the weights from a gradient.  After
``torch.where(torch.isnan(loss), torch.zeros_like(loss), loss)``, a gradient of zero goes back into
what is not finite, and zero times infinity is NaN.
"""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.torch_names import INT_DTYPES
from gbfix.analysis.tree import code, walk, words

from .context import Context
from .gates import CUT, called, carries

_ASKS = words("isnan isinf isfinite isposinf isneginf")


def asks_for_finiteness(test: cst.BaseExpression, ctx: Context, depth: int = 3) -> bool:
    """Whether a test asks if something is finite, by itself or by the names that it reads."""
    for node in walk(test):
        match node:
            case cst.Call() if _asks(called(node).rpartition(".")[2], ctx):
                return True
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]) if (
                isinstance(operator, cst.Equal | cst.NotEqual) and code(left) == code(right)
            ):
                return True
            case cst.Name(value=name) if depth and _may_be_truth(node, ctx):
                assert ctx.function is not None
                for made in walk(ctx.function.body):
                    match made:
                        case cst.Assign(
                            targets=[cst.AssignTarget(target=cst.Name(value=bound))], value=value
                        ) if bound == name and asks_for_finiteness(value, ctx, depth - 1):
                            return True
    return False


def _asks(name: str, ctx: Context) -> bool:
    """Whether a function of torch's or of the file asks whether something is finite."""
    return name in _ASKS or any(
        isinstance(part, cst.Call) and called(part).rpartition(".")[2] in _ASKS
        for function in walk(ctx.site.module)
        if isinstance(function, cst.FunctionDef) and function.name.value == name
        for part in walk(function.body)
    )


def _may_be_truth(node: cst.Name, ctx: Context) -> bool:
    """Whether a name may hold a truth, or how many there are."""
    fact = ctx.kind_of(node)
    kinds = ("torch.bool", *INT_DTYPES)
    truth = fact is None or fact.kind in ("bool", "int") or fact.dtype in kinds
    return truth and ctx.function is not None


def flows_from(
    node: cst.CSTNode, ctx: Context, local: frozenset[str], *, ever: bool = False
) -> set[str]:
    """The names and attributes into which a gradient of the expression may flow.

    ``ever`` counts tensors that required none when the program ran.
    """
    if isinstance(node, cst.Name | cst.Attribute) and carries(node, ctx, local):
        fact = ctx.kind_of(node)
        may = ever or fact is None or fact.requires_grad is not False
        return {code(node)} if may else set()
    match node:
        case cst.Comparison() | cst.Lambda() | cst.Attribute():
            return set()
        case cst.Call(func=func, args=args):
            if called(node).rpartition(".")[2] in CUT:
                return set()
            inside: list[cst.CSTNode] = [arg.value for arg in args]
            inside += [func.value] if isinstance(func, cst.Attribute) else []
        case _:
            inside = list(node.children)
    return {name for part in inside for name in flows_from(part, ctx, local, ever=ever)}
