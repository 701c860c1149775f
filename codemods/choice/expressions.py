"""Choices inside expressions: ternaries, ``and``/``or`` as values, filters of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from gbfix.analysis.names import telling_name
from gbfix.analysis.tree import code, walk

from .context import Context, Declined
from .finiteness import asks_for_finiteness
from .selects import Selects
from .tests import Parts, Test, lower, split, truth

if TYPE_CHECKING:
    from .convert import Converter


class Expressions:
    """Converts the chosen expressions below a node."""

    def __init__(
        self, ctx: Context, chosen: Callable[[cst.CSTNode], bool], gradients: bool
    ) -> None:
        self.ctx = ctx
        self.chosen = chosen
        self.selects = Selects(ctx, gradients=gradients)
        self.hoisted: list[cst.BaseStatement] = []
        self.names: list[str] = []
        self.hoisting = False
        self.dtype = ""

    def lowered(self, node: cst.BaseExpression, converter: Converter) -> cst.BaseExpression:
        if not any(self.chosen(it) for it in walk(node)):
            return node
        new = node.visit(self.transformer(converter))
        assert isinstance(new, cst.BaseExpression)
        return new

    def transformer(self, converter: Converter) -> cst.CSTTransformer:
        return _Lower(self, converter)

    def test(self, node: cst.BaseExpression, inside: int) -> Test:
        """The test, under a name where a statement before this one can give it one."""
        found = lower(node, self.ctx)
        if not self.hoisting or inside or found.text.isidentifier():
            return found
        name = self.ctx.fresh(telling_name(cst.parse_expression(found.text)))
        self.names.append(name)
        target = cst.AssignTarget(cst.Name(name))
        value = cst.parse_expression(found.text)
        self.hoisted.append(cst.SimpleStatementLine([cst.Assign([target], value)]))
        return Test(name, found.negated)


class _Lower(cst.CSTTransformer):
    def __init__(self, owner: Expressions, converter: Converter) -> None:
        super().__init__()
        self.owner = owner
        self.ctx = owner.ctx
        self.converter = converter
        self.inside = 0

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.inside += 1

    def visit_ListComp(self, node: cst.ListComp) -> None:
        self.inside += 1

    def visit_DictComp(self, node: cst.DictComp) -> None:
        self.inside += 1

    def visit_SetComp(self, node: cst.SetComp) -> None:
        self.inside += 1

    def visit_GeneratorExp(self, node: cst.GeneratorExp) -> None:
        self.inside += 1

    def leave_Lambda(self, original_node: cst.Lambda, updated_node: cst.Lambda) -> cst.Lambda:
        self.inside -= 1
        return updated_node

    def leave_ListComp(
        self, original_node: cst.ListComp, updated_node: cst.ListComp
    ) -> cst.ListComp:
        self.inside -= 1
        return updated_node

    def leave_DictComp(
        self, original_node: cst.DictComp, updated_node: cst.DictComp
    ) -> cst.DictComp:
        self.inside -= 1
        return updated_node

    def leave_SetComp(self, original_node: cst.SetComp, updated_node: cst.SetComp) -> cst.SetComp:
        self.inside -= 1
        return updated_node

    def leave_GeneratorExp(
        self, original_node: cst.GeneratorExp, updated_node: cst.GeneratorExp
    ) -> cst.BaseExpression:
        self.inside -= 1
        return updated_node

    def visit_IfExp(self, node: cst.IfExp) -> None:
        if not self.owner.chosen(node):
            self.inside += 1

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.BaseExpression:
        if not self.owner.chosen(original_node):
            self.inside -= 1
            return updated_node
        parts = split(original_node.test, self.ctx)
        if parts.tensor is None:
            raise Declined("it is not known that a tensor decides")
        self.converter.converted += 1
        self.converter.vain.check(original_node.body)
        self.converter.vain.check(original_node.orelse)
        self.owner.selects.dtype = self.owner.dtype
        self.owner.selects.guards = asks_for_finiteness(original_node.test, self.ctx)
        return self._chosen(updated_node, parts, self.inside)

    def _chosen(self, node: cst.IfExp, parts: Parts, inside: int) -> cst.BaseExpression:
        """The choice of a tensor, below what Python asks first."""
        assert parts.tensor is not None
        if parts.python is None:
            test = self.owner.test(parts.tensor, inside)
            return _grouped(self.owner.selects.select(test, node.body, node.orelse), node)
        below = split(parts.tensor, self.ctx)
        inner = node.with_changes(lpar=(), rpar=())
        chosen = self._chosen(inner, below, inside + 1)
        if isinstance(chosen, cst.IfExp):
            chosen = chosen.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        if parts.joint == "and":
            return node.with_changes(test=parts.python, body=chosen)
        return node.with_changes(test=parts.python, orelse=chosen)

    def leave_BooleanOperation(
        self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation
    ) -> cst.BaseExpression:
        if not self.owner.chosen(original_node):
            return updated_node
        left, right = original_node.left, original_node.right
        if not self.ctx.is_tensor(left):
            return updated_node
        self.converter.converted += 1
        self.converter.vain.check(right)
        one, other = updated_node.left, updated_node.right
        if isinstance(original_node.operator, cst.And):
            one, other = other, one
        test = Test(truth(code(updated_node.left), self.ctx.fact(left), self.ctx))
        chosen = self.owner.selects.select(test, one, other)
        return _grouped(chosen, updated_node)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """``sum(x for x in xs if t)`` adds zero where the filter does not hold."""
        if not self.owner.chosen(original_node):
            return updated_node
        each = original_node.args[0].value
        new = updated_node.args[0].value
        assert isinstance(each, cst.GeneratorExp | cst.ListComp)
        assert isinstance(new, cst.GeneratorExp | cst.ListComp)
        tests = each.for_in.ifs
        if len(tests) != 1:
            raise Declined("a filter has several parts")
        self.converter.converted += 1
        self.converter.vain.check(each.elt)
        if isinstance(self.ctx.site.parent(original_node), cst.Return | cst.Element):
            self.ctx.doubts.append("Where the filter holds for none, the sum was the number 0.")
        test = lower(tests[0].test, self.ctx)
        self.owner.selects.guards = asks_for_finiteness(tests[0].test, self.ctx)
        chosen = self.owner.selects.select(test, new.elt, cst.Integer("0"))
        changed = new.with_changes(elt=chosen, for_in=new.for_in.with_changes(ifs=[]))
        return updated_node.with_changes(args=[updated_node.args[0].with_changes(value=changed)])


def _grouped(new: cst.BaseExpression, old: cst.BaseExpression) -> cst.BaseExpression:
    if old.lpar and not isinstance(new, cst.Call | cst.Name) and not new.lpar:
        return new.with_changes(lpar=old.lpar, rpar=old.rpar)
    return new
