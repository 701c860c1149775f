"""Gradients of the arm not taken: zero times infinity is NaN, unless a gate stands before it.

``torch.where`` hands a gradient of zero to the arm not taken.  An operation there whose derivative
is infinite or NaN makes NaN of it.  A gate, ``torch.where(test, x, 1)`` around an operand, keeps
the arm's values where the test holds and lets no gradient through where it does not.
"""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.torch_names import CASTS, INDEX_REDUCTIONS, UNARY_PREDICATES
from gbfix.analysis.tree import children, code, walk, words

from .context import Context
from .tests import Test

#: Linear in the tensor, or with a derivative that masks instead of multiplying.
_HARMLESS = (
    words(
        """sum mean reshape view flatten unflatten squeeze unsqueeze transpose permute t movedim
        expand expand_as broadcast_to repeat tile clone contiguous to type_as cat stack concat
        hstack vstack roll flip narrow select chunk split unbind neg clamp clip clamp_min clamp_max
        relu max min amax amin diff cumsum masked_fill nan_to_num where tril triu pad sub add
        float double half bfloat16 cpu cuda diagonal trace"""
    )
    | frozenset(CASTS)
)
#: With a finite derivative wherever the tensor is finite.
_TAME = words(
    """mul multiply matmul mm bmm einsum tanh sigmoid softplus softmax log_softmax abs gelu silu
    elu selu leaky_relu sin cos erf hardtanh logsigmoid linear conv1d conv2d cross_entropy
    mse_loss l1_loss smooth_l1_loss huber_loss square median logsumexp layer_norm dot outer
    lerp cumsum maximum minimum stack sort topk interpolate avg_pool2d max_pool2d atan"""
)
#: Nothing flows back through these.
_CUT = (
    words(
        """detach item argmax argmin argsort size dim numel zeros_like ones_like full_like
        new_zeros new_ones new_full new_tensor empty_like isnan isinf isfinite sign round floor
        ceil eq ne lt le gt ge any all nonzero bincount zeros ones full arange tensor"""
    )
    | UNARY_PREDICATES
    | INDEX_REDUCTIONS
)
_WHOLE_DTYPES = (
    "torch.bool torch.uint8 torch.int8 torch.int16 torch.int32 torch.int64".split()
)


class Gates:
    """Which operands of an arm need a gate."""

    def __init__(self, ctx: Context, local: frozenset[str] = frozenset()) -> None:
        self.ctx = ctx
        self.local = local
        self.strict = ctx.gradients_seen

    def leaves(self, node: cst.CSTNode) -> set[str]:
        """The tensors from outside the arm whose gradients an expression carries."""
        match node:
            case cst.Name():
                return {node.value} if self._carries(node) else set()
            case cst.Attribute():
                if isinstance(node.value, cst.Name | cst.Attribute) and self._carries(node):
                    return {code(node)}
                if node.attr.value in ("shape", "dtype", "device", "ndim"):
                    return set()
                return self.leaves(node.value)
            case cst.Subscript():
                return self.leaves(node.value)
            case cst.Comparison() | cst.Lambda():
                return set()
            case cst.Call(func=cst.Attribute(attr=attr, value=value)):
                if attr.value in _CUT:
                    return set()
                inside = [arg.value for arg in node.args]
                return set().union(*(self.leaves(it) for it in (value, *inside)))
            case cst.Call():
                return set().union(*(self.leaves(arg.value) for arg in node.args), set())
        parts = [child for child in _below(node)]
        return set().union(*(self.leaves(part) for part in parts), set())

    def _carries(self, node: cst.BaseExpression) -> bool:
        root = code(node).partition(".")[0]
        if root in self.local:
            return False
        fact = self.ctx.kind_of(node)
        if fact is None or not fact.is_tensor:
            return False
        return fact.dtype not in _WHOLE_DTYPES

    def needed(self, node: cst.CSTNode) -> set[str]:
        """The leaves that need a gate for this expression."""
        match node:
            case cst.BinaryOperation(left=left, right=right, operator=operator):
                inner = self.needed(left) | self.needed(right)
                if isinstance(operator, cst.Add | cst.Subtract):
                    return inner
                one, other = self.leaves(left), self.leaves(right)
                if isinstance(operator, cst.Divide):
                    return inner | other
                if isinstance(operator, cst.Multiply | cst.MatrixMultiply):
                    if not one or not other or not self.strict:
                        return inner
                    return inner | min(other, one, key=len)
                return inner | one | other
            case cst.Comparison() | cst.Lambda():
                return set()
            case cst.Call():
                return self._call(node)
            case cst.Subscript():
                return self.needed(node.value)
        return set().union(*(self.needed(part) for part in _below(node)), set())

    def _call(self, node: cst.Call) -> set[str]:
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else code(node.func)
        parts: list[cst.CSTNode] = [arg.value for arg in node.args]
        if isinstance(node.func, cst.Attribute):
            parts.append(node.func.value)
        if name in _CUT:
            return set()
        if name in _HARMLESS or (name in _TAME and not self.strict):
            return set().union(*(self.needed(part) for part in parts), set())
        return set().union(*(self.leaves(part) for part in parts), set())


def _below(node: cst.CSTNode) -> list[cst.CSTNode]:
    return list(children(node))


def gated(
    node: cst.BaseExpression, names: set[str], test: Test, holds: bool, ctx: Context
) -> cst.BaseExpression:
    """The expression with gates around these operands; ``holds``: the arm of a true test."""
    if not names:
        return node
    first = holds is not test.negated

    class Put(cst.CSTTransformer):
        def visit_Comparison(self, node: cst.Comparison) -> bool:
            return False

        def visit_Attribute(self, node: cst.Attribute) -> bool:
            return code(node) not in names

        def leave_Attribute(
            self, original_node: cst.Attribute, updated_node: cst.Attribute
        ) -> cst.BaseExpression:
            if code(original_node) in names:
                return gate(code(original_node), test, first, ctx)
            if updated_node.attr.value in ("shape", "dtype", "device", "ndim"):
                return original_node
            attr = original_node.attr
            return updated_node.with_changes(attr=attr)

        def leave_Name(
            self, original_node: cst.Name, updated_node: cst.Name
        ) -> cst.BaseExpression:
            if original_node.value in names:
                return gate(original_node.value, test, first, ctx)
            return updated_node

        def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
            return updated_node.with_changes(keyword=original_node.keyword)

    new = node.visit(Put())
    assert isinstance(new, cst.BaseExpression)
    return new


def gate(name: str, test: Test, first: bool, ctx: Context) -> cst.Call:
    arguments = f"{name}, 1" if first else f"1, {name}"
    made = cst.parse_expression(f"{ctx.torch}.where({test.text}, {arguments})")
    assert isinstance(made, cst.Call)
    return made


def count(node: cst.CSTNode, text: str) -> int:
    """How often a name (or a chain of names) stands in an expression."""
    return sum(
        1
        for inner in walk(node)
        if isinstance(inner, cst.Name | cst.Attribute) and code(inner) == text
    )
