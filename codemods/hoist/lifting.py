"""Takes an expression out of its statement, so that the statement can be cut around it.

``return report(x.sin()) + 1`` becomes

    x_sin = x.sin()
    report_x_sin = report(x_sin)
    return report_x_sin + 1

in which `halves.cut` finds something to compile on both sides of the call.  What Python evaluated
before the expression is lifted before it, in the same order; local names and constants stay where
they are, since nothing in the expression can bind another value to them.  A global that some
function binds is read where it was read.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping

import libcst as cst

from gbfix.analysis.build import assign
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import function_scope, module_bindings
from gbfix.analysis.tree import children, code, dotted, walk
from gbfix.codemod import Facts, Site
from gbfix.schema import Fact, Frame, Span

from .halves import CannotSplit

_CONSTANT = cst.BaseNumber | cst.SimpleString | cst.Name
_COMPUTES = cst.Call | cst.BinaryOperation | cst.UnaryOperation | cst.Comparison
_TENSORS = frozenset({"torch.Tensor", "torch.nn.parameter.Parameter"})
_MOST_ITEMS = 8


@dataclasses.dataclass(frozen=True)
class Lifted:
    """A site of the new text, its function, and the expression that must run in Python there.

    ``kept`` holds the names of values that no compiled part can take.
    """

    site: Site
    function: cst.FunctionDef
    node: cst.BaseExpression
    kept: frozenset[str] = frozenset()


def passable(fact: Fact | None) -> bool:
    """Whether such a value can be handed to a compiled function as it is."""
    if fact is None:
        return False
    if fact.is_tensor:
        quantized = (fact.dtype or "").startswith("torch.q")
        return fact.type in _TENSORS and fact.strides is not None and not quantized
    if fact.kind in ("list", "tuple") and fact.type in ("list", "tuple"):
        items = fact.items
        return items is not None and len(items) <= _MOST_ITEMS and all(map(passable, items))
    return fact.kind in ("bool", "int", "float", "str", "none")


def lift(site: Site, function: cst.FunctionDef, node: cst.CSTNode) -> Lifted:
    """The text with ``node`` (and what must come before it) in statements of their own.

    Raises `CannotSplit` where nothing is gained, or where the order of evaluation would change.
    """
    statement = site.statement_of(node)
    if not isinstance(node, cst.BaseExpression):
        raise CannotSplit("it is no expression")
    root = _root(statement)
    path = _path(site, node, root)
    _check(root)
    places = [place for place in path if _always_runs(path, place)]
    outer = next((place for place in places if passable(site.fact(place))), places[0])
    lifter = _Lifter(site, function)
    lifter.all_before(path, outer)
    if outer is node:
        lifter.arguments(node)
    wanted = code(lifter.replaced(node))
    kept = ""
    if outer is not root:
        kept = lifter.named(outer, lifter.replaced(outer))
        lifter.replace[outer] = cst.Name(kept)
    computed = [*lifter.replace.keys() - {outer}, *path[path.index(outer) + 1 :]]
    if isinstance(statement, cst.For) and passable(site.fact(outer)):
        computed += walk(statement.body)  # the loop can be compiled without what it goes through
    if not any(_computes_tensors(site, part) for part in computed):
        raise CannotSplit("there is nothing to compile in the statement")
    lifted = _build(site, function, statement, lifter, wanted)
    stuck = bool(kept) and not passable(site.fact(outer))
    return dataclasses.replace(lifted, kept=frozenset({kept})) if stuck else lifted


def _root(statement: cst.CSTNode) -> cst.BaseExpression:
    """The expression that the statement evaluates first."""
    if isinstance(statement, cst.If | cst.For):
        return statement.test if isinstance(statement, cst.If) else statement.iter
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        small = statement.body[0]
        if isinstance(small, cst.Return | cst.Assign | cst.AnnAssign | cst.Expr):
            if small.value is not None:
                return small.value
        elif isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
            return small.value
    raise CannotSplit("nothing can be taken out of such a statement")


def _path(
    site: Site, node: cst.BaseExpression, root: cst.BaseExpression
) -> list[cst.BaseExpression]:
    """The expressions around the node up to the root, innermost first."""
    found = []
    for place in (node, *site.ancestors(node)):
        if isinstance(place, cst.BaseExpression):
            found.append(place)
        if place is root:
            return found
    raise CannotSplit("it is not in what the statement evaluates first")


def _check(root: cst.BaseExpression) -> None:
    for part in walk(root):
        if isinstance(part, cst.NamedExpr | cst.Await | cst.Yield | cst.StarredElement):
            raise CannotSplit("the order of evaluation is not plain to see")


def _always_runs(path: list[cst.BaseExpression], place: cst.BaseExpression) -> bool:
    """Whether the place is evaluated once whenever the root is."""
    inner = path[path.index(place) :]
    for child, parent in itertools.pairwise(inner):
        if isinstance(parent, cst.Lambda | cst.BaseComp):
            return False
        if isinstance(parent, cst.IfExp) and child is not parent.test:
            return False
        if isinstance(parent, cst.BooleanOperation) and child is not parent.left:
            return False
        if isinstance(parent, cst.Comparison):
            late = [target.comparator for target in parent.comparisons[1:]]
            if any(child is comparator for comparator in late):
                return False
    return True


def _computes_tensors(site: Site, node: cst.CSTNode) -> bool:
    fact = site.fact(node)
    return fact is not None and fact.is_tensor and isinstance(node, _COMPUTES | cst.IfExp)


class _Lifter:
    def __init__(self, site: Site, function: cst.FunctionDef) -> None:
        self.site = site
        self.taken = names_in(site.module)
        self.locals = function_scope(function).locals
        self.quiet = False
        self.statements: list[cst.BaseStatement] = []
        self.replace: dict[cst.CSTNode, cst.BaseExpression] = {}

    def all_before(self, path: list[cst.BaseExpression], outer: cst.BaseExpression) -> None:
        """Lift what is evaluated before ``outer``, outermost first."""
        self.quiet = effects_of(outer, self.site.fact).pure
        inner = path[path.index(outer) :]
        for child, parent in reversed(list(itertools.pairwise(inner))):
            for sibling in _before(parent, child):
                self.settle(sibling)

    def settle(self, node: cst.BaseExpression) -> None:
        """See to it that the expression may as well be evaluated later: lift it if need be."""
        if isinstance(node, _CONSTANT) and not self.may_be_bound_anew(node):
            return
        if isinstance(node, cst.Attribute) and self.is_callee(node):
            # The method of a module or class stays; one of a value is bound to that value.
            if dotted(node) is None or passable(self.site.fact(node.value)):
                self.settle(node.value)
            return
        if not passable(self.site.fact(node)):
            if self.quiet and dotted(node) is not None:
                return  # nothing happens in between that could change what it is
            raise CannotSplit("what is evaluated before it cannot be handed on")
        self.replace[node] = cst.Name(self.named(node, node))

    def may_be_bound_anew(self, node: cst.CSTNode) -> bool:
        """Whether the node is a global name that what is called may bind to something else."""
        if not isinstance(node, cst.Name) or node.value in self.locals:
            return False
        bound = module_bindings(self.site.module).get(node.value, ())
        if len(bound) > 1:
            return True
        stored = re.compile(rf"\.{node.value}\s*(:[^=\n]*)?[-+*/%@&|^<>]*=[^=]")
        is_value = any(isinstance(item, cst.Assign | cst.AnnAssign) for item in bound)
        return is_value and any(map(stored.search, self.site.sources.values()))

    def is_callee(self, node: cst.Attribute) -> bool:
        holder = self.site.parent(node)
        return isinstance(holder, cst.Call) and holder.func is node

    def arguments(self, node: cst.BaseExpression) -> None:
        """Lift what the expression computes of tensors before it does its own work."""
        left = False
        for part in _operands(node):
            if isinstance(part, _CONSTANT) or (
                isinstance(part, cst.Attribute) and dotted(part) is not None
            ):
                left = left or isinstance(part, cst.Attribute) or self.may_be_bound_anew(part)
                continue
            if left and not effects_of(part, self.site.fact).pure:
                return  # it might change what is now read after it
            fact = self.site.fact(part)
            if not isinstance(part, _COMPUTES) or fact is None or not fact.is_tensor:
                return
            if not passable(fact):
                return
            self.replace[part] = cst.Name(self.named(part, part))

    def named(self, node: cst.BaseExpression, value: cst.BaseExpression) -> str:
        name = fresh(telling_name(node), self.taken)
        self.taken.add(name)
        if "\n" in code(value) and not value.lpar:  # the parentheses around may have been others'
            value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        self.statements.append(assign(name, value))
        return name

    def replaced(self, node: cst.BaseExpression) -> cst.BaseExpression:
        new = node.visit(_Replace(self.replace))
        assert isinstance(new, cst.BaseExpression)
        return new


def _before(parent: cst.CSTNode, child: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The operands of the parent that are evaluated before the child."""
    for part in children(parent):
        if any(node is child for node in walk(part)):
            if part is not child and not isinstance(part, cst.BaseExpression):
                yield from _before(part, child)
            return
        if isinstance(part, cst.Arg):
            if part.star:
                raise CannotSplit("what is evaluated before it is not plain to see")
            yield part.value
        elif isinstance(part, cst.BaseExpression):
            yield part
        elif isinstance(part, cst.FormattedStringText):
            continue
        else:
            inner = [node for node in children(part) if isinstance(node, cst.BaseExpression)]
            yield from inner


def _operands(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What the expression is computed of, in order."""
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            yield node.func.value
        for arg in node.args:
            if arg.star:
                return
            yield arg.value
    elif isinstance(node, cst.Attribute):
        yield node.value
    elif isinstance(node, cst.BinaryOperation):
        yield from (node.left, node.right)


class _Replace(cst.CSTTransformer):
    def __init__(self, new: Mapping[cst.CSTNode, cst.BaseExpression]) -> None:
        super().__init__()
        self.new = new

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        return self.new.get(original_node, updated_node)


@dataclasses.dataclass(frozen=True)
class MovedFacts:
    """Facts of the old text at places of the new one; none where the text is new.

    Lines before ``first`` are as they were; the new text ends with line ``last``, and what comes
    behind it has moved by ``by`` lines.
    """

    facts: Facts
    first: int
    last: int
    by: int

    def expression(self, span: Span, text: str) -> Fact | None:
        if self.first <= span.line <= self.last or span.end_line >= self.first > span.line:
            return None
        by = self.by if span.line > self.last else 0
        moved = dataclasses.replace(span, line=span.line - by, end_line=span.end_line - by)
        return self.facts.expression(moved, text)

    def locals_before(self, line: int) -> Mapping[str, Fact]:
        return self.facts.locals_before(self._old(line))

    def executed(self, line: int) -> int | None:
        return self.facts.executed(self._old(line))

    def _old(self, line: int) -> int:
        if line > self.last:
            return line - self.by
        return min(line, self.first)


def _build(
    site: Site,
    function: cst.FunctionDef,
    statement: cst.CSTNode,
    lifter: _Lifter,
    wanted: str,
) -> Lifted:
    """The site of the text in which the lifted statements stand above the statement."""
    if not isinstance(site.parent(statement), cst.IndentedBlock):
        raise CannotSplit("there is no place above the statement")
    assert isinstance(statement, cst.SimpleStatementLine | cst.If | cst.For)
    kept = statement.visit(_Replace(lifter.replace))
    assert isinstance(kept, cst.SimpleStatementLine | cst.If | cst.For)
    if not lifter.statements:
        raise CannotSplit("nothing in the statement stands before it")
    first, *others = lifter.statements
    first = first.with_changes(leading_lines=statement.leading_lines)
    edit = site.edit()
    edit.replace(statement, first, *others, kept.with_changes(leading_lines=()))
    text = edit.apply().code
    by = text.count("\n") - site.source.count("\n")
    old = site.span(statement)
    head = old.line if isinstance(statement, cst.If | cst.For) else old.end_line
    moved = MovedFacts(site.facts, old.line, head + by, by)
    new, new_function = on_new_text(site, function, text, moved)
    places = [
        part
        for part in walk(new_function.body)
        if isinstance(part, cst.BaseExpression)
        and code(part) == wanted
        and moved.first <= new.span(part).line <= moved.last
    ]
    if not places:
        raise CannotSplit("the new text was not found again")
    return Lifted(new, new_function, places[0])


def on_new_text(
    site: Site, function: cst.FunctionDef, text: str, moved: MovedFacts
) -> tuple[Site, cst.FunctionDef]:
    """The site of a text that differs behind the function's first line, and its function there."""
    new = Site(
        site.path,
        text,
        dataclasses.replace(site.graph_break, site=Frame(site.path, moved.first, "")),
        moved,
        region=site.region,
        sources={**site.sources, site.path: text},
        entry=site.entry,
    )
    line = site.span(function).line
    same = [
        part
        for part in walk(new.module)
        if isinstance(part, cst.FunctionDef) and new.span(part).line == line
    ]
    if len(same) != 1:
        raise CannotSplit("the new text was not found again")
    return new, same[0]
