"""Gradients of the arm not taken: zero times infinity is NaN, unless a gate stands before it.

``torch.where`` hands a gradient of zero to the arm not taken.  An operation there whose derivative
is infinite or NaN makes NaN of it.  A gate, ``torch.where(test, x, 1)`` around the operand of such
an operation, keeps the arm's values where the test holds and lets nothing back where it does not.
"""

from __future__ import annotations

import functools

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.names import names_in
from gbfix.analysis.torch_names import CASTS, INDEX_REDUCTIONS, UNARY_PREDICATES
from gbfix.analysis.tree import children, code, walk, words
from gbfix.codemod import Site

from .context import Context
from .tests import Test

#: Linear in the tensor, or with a derivative that masks instead of multiplying.
HARMLESS = words(
    """sum mean reshape view flatten unflatten squeeze unsqueeze transpose permute t movedim
        expand expand_as broadcast_to repeat tile clone contiguous to type_as cat stack concat
        hstack vstack roll flip narrow select chunk split unbind neg clamp clip clamp_min clamp_max
        relu max min amax amin diff cumsum masked_fill nan_to_num where tril triu pad sub add
        float double half bfloat16 cpu cuda diagonal trace tuple list zip enumerate len range
        dict isinstance sorted reversed"""
) | frozenset(CASTS)
#: With a finite derivative wherever the tensor is finite.
TAME = words(
    """mul multiply matmul mm bmm einsum tanh sigmoid softplus softmax log_softmax abs gelu silu
    elu selu leaky_relu sin cos erf hardtanh logsigmoid linear conv1d conv2d cross_entropy
    mse_loss l1_loss smooth_l1_loss huber_loss square median logsumexp layer_norm dot outer
    lerp maximum minimum std var norm vector_norm sort topk interpolate avg_pool2d max_pool2d
    atan"""
)
#: Nothing flows back through these.
CUT = (
    words(
        """detach item argmax argmin argsort size dim numel zeros_like ones_like full_like
        new_zeros new_ones new_full new_tensor empty_like isnan isinf isfinite sign round floor
        ceil eq ne lt le gt ge any all nonzero bincount zeros ones full arange tensor tolist"""
    )
    | UNARY_PREDICATES
    | INDEX_REDUCTIONS
)
_WHOLE_DTYPES = words("torch.bool torch.uint8 torch.int8 torch.int16 torch.int32 torch.int64")
_PYTHON = ("shape", "dtype", "device", "ndim")


def carries(node: cst.CSTNode, ctx: Context, local: frozenset[str]) -> bool:
    """Whether a gradient may flow back into the expression."""
    match node:
        case cst.Name() | cst.Attribute():
            fact = ctx.kind_of(node)
            if fact is not None:
                return fact.is_tensor and fact.dtype not in _WHOLE_DTYPES
            if isinstance(node, cst.Name):
                return node.value in local
            return node.attr.value not in _PYTHON and carries(node.value, ctx, local)
        case cst.Comparison() | cst.Lambda():
            return False
        case cst.Subscript():
            fact = ctx.kind_of(node)
            if fact is not None:
                return fact.is_tensor and fact.dtype not in _WHOLE_DTYPES
            return carries(node.value, ctx, local)
        case cst.Call(func=func):
            if called(node) in CUT:
                return False
            inside: list[cst.CSTNode] = [arg.value for arg in node.args]
            if isinstance(func, cst.Attribute):
                inside.append(func.value)
            return any(carries(it, ctx, local) for it in inside)
    return any(carries(child, ctx, local) for child in children(node))


def called(node: cst.Call) -> str:
    return node.func.attr.value if isinstance(node.func, cst.Attribute) else code(node.func)


def gated(
    node: cst.BaseExpression, test: Test, holds: bool, ctx: Context, local: frozenset[str]
) -> cst.BaseExpression:
    """The expression of an arm with a gate before every operation that needs one."""
    new = node.visit(_Gates(test, holds is not test.negated, ctx, local))
    assert isinstance(new, cst.BaseExpression)
    return new


class _Gates(cst.CSTTransformer):
    def __init__(self, test: Test, first: bool, ctx: Context, local: frozenset[str]) -> None:
        super().__init__()
        self.test, self.first, self.ctx, self.local = test, first, ctx, local
        self.strict = ctx.gradients_seen

    def visit_Comparison(self, node: cst.Comparison) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return node.attr.value not in _PYTHON

    def visit_Call(self, node: cst.Call) -> bool:
        return called(node) not in CUT

    def _carries(self, node: cst.CSTNode) -> bool:
        return carries(node, self.ctx, self.local)

    def _gate(self, node: cst.BaseExpression) -> cst.BaseExpression:
        text = code(node.with_changes(lpar=(), rpar=()) if _loose(node) else node)
        if text.startswith(f"{self.ctx.torch}.where({self.test.text}, "):
            return node
        arguments = f"{text}, 1" if self.first else f"1, {text}"
        return cst.parse_expression(f"{self.ctx.torch}.where({self.test.text}, {arguments})")

    def _gate_argument(
        self, old: cst.BaseExpression, node: cst.BaseExpression
    ) -> cst.BaseExpression:
        """An argument, which may be None in calls that leave an optional one out."""
        gated = self._gate(node)
        if isinstance(old, cst.Name) and may_be_none(self.ctx.site, old.value):
            return cst.parse_expression(f"None if {old.value} is None else {code(gated)}")
        return gated

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        left, right = (self._carries(it) for it in (original_node.left, original_node.right))
        match original_node.operator:
            case cst.Add() | cst.Subtract():
                return updated_node
            case cst.Multiply() | cst.MatrixMultiply():
                if left and right and self.strict:
                    return self._one_side(original_node, updated_node)
                return updated_node
            case cst.Divide():
                if right or (left and self._may_be_nothing(original_node)):
                    return updated_node.with_changes(right=self._gate(updated_node.right))
                return updated_node
        if left and not _whole_power(original_node):
            updated_node = updated_node.with_changes(left=self._gate(updated_node.left))
        if right:
            updated_node = updated_node.with_changes(right=self._gate(updated_node.right))
        return updated_node

    def _may_be_nothing(self, node: cst.BinaryOperation) -> bool:
        """Whether what is from before the arm is divided by one number, which may be a count of 0.

        What comes out of the arm itself has a gate further up, behind which NaN goes no further.
        """
        if not isinstance(node.right, cst.Name | cst.Attribute):
            return False
        fact = self.ctx.kind_of(node.right)
        if fact is None or not fact.is_tensor or fact.shape != ():
            return False
        return any(
            isinstance(it, cst.Name | cst.Subscript)
            and carries(it, self.ctx, frozenset())
            and names_in(it).isdisjoint(self.local)
            and not self._had_none(it)
            for it in walk(node.left)
        )

    def _had_none(self, node: cst.BaseExpression) -> bool:
        """Whether a tensor was seen, and asked for no gradient."""
        fact = self.ctx.kind_of(node)
        return fact is not None and fact.requires_grad is False

    def _one_side(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        """A product: the shorter side is enough, as the other is linear then."""
        sides = (code(original_node.left), code(original_node.right))
        if len(sides[0]) < len(sides[1]) and sides[0] != sides[1]:
            return updated_node.with_changes(left=self._gate(updated_node.left))
        return updated_node.with_changes(right=self._gate(updated_node.right))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = called(original_node)
        if name in CUT or name in HARMLESS or (name in TAME and not self.strict):
            return updated_node
        if isinstance(original_node.func, cst.Name) and self._plain(name):
            return updated_node
        if code(original_node.func) in self.ctx.tame and not self.ctx.careful:
            return updated_node
        args = [
            new.with_changes(value=self._gate_argument(old.value, new.value))
            if self._carries(old.value)
            else new
            for old, new in zip(original_node.args, updated_node.args, strict=True)
        ]
        func, old = updated_node.func, original_node.func
        of = old.value if isinstance(old, cst.Attribute) else None
        if of is not None and self.ctx.is_tensor(of) and self._carries(of):
            assert isinstance(func, cst.Attribute)
            func = func.with_changes(value=self._gate(func.value))
        return updated_node.with_changes(args=args, func=func)

    def _plain(self, name: str) -> bool:
        """Whether a function of the file has no operation that would need a gate."""
        for statement in self.ctx.site.module.body:
            if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
                return not any(_singular(node, self.strict) for node in walk(statement.body))
        return False


def may_be_none(site: Site, name: str) -> bool:
    """Whether the text says that the name is None in some calls: by a default, or by a function of
    the file that gives its value.
    """
    function = site.function
    if function is None:
        return False
    for param in params_of(function.params):
        default = code(param.default) if param.default is not None else ""
        if param.name.value == name and default == "None":
            return True
    for node in walk(function.body):
        match node:
            case cst.Assign(targets=targets, value=value) if name in {
                code(target.target) for target in targets
            }:
                arms = [value.body, value.orelse] if isinstance(value, cst.IfExp) else [value]
                if "None" in {code(arm) for arm in arms}:
                    return True
                called_ = code(value.func) if isinstance(value, cst.Call) else ""
                if called_.removeprefix("self.") in _giving_none(site.module):
                    return True
    return False


@functools.lru_cache(maxsize=4)
def _giving_none(module: cst.Module) -> frozenset[str]:
    """The functions and methods of a file that may give None."""
    return frozenset(
        node.name.value
        for node in walk(module)
        if isinstance(node, cst.FunctionDef)
        for inner in walk(node.body)
        if isinstance(inner, cst.Return) and (inner.value is None or code(inner.value) == "None")
    )


def _singular(node: cst.CSTNode, strict: bool) -> bool:
    match node:
        case cst.BinaryOperation(operator=cst.Divide() | cst.Power(), right=right):
            return not isinstance(right, cst.BaseNumber)
        case cst.BinaryOperation(operator=cst.Multiply() | cst.MatrixMultiply()):
            return strict
        case cst.Call():
            name = called(node)
            return not (name in CUT or name in HARMLESS or (name in TAME and not strict))
    return False


def _whole_power(node: cst.BinaryOperation) -> bool:
    match node:
        case cst.BinaryOperation(operator=cst.Power(), right=cst.Integer() as power):
            return power.evaluated_value >= 1
        case cst.BinaryOperation(operator=cst.Power()):
            return False
    return True


def _loose(node: cst.BaseExpression) -> bool:
    return (
        bool(node.lpar)
        and "\n" not in code(node)
        and not isinstance(node, cst.GeneratorExp | cst.Tuple)
    )
