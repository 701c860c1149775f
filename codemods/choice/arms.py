"""One arm of a choice, statement by statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import live_before, maybe_bound_before
from gbfix.analysis.tree import code, walk

from ..control_flow.refusal import Refusal
from ..control_flow.values import Values
from .aliases import is_fresh
from .blocks import else_with, leading_lines, statements_in, unspaced
from .context import Declined
from .convert import (
    APPEND,
    Arm,
    _all_names,
    _assign,
    _commented,
    _decided,
    _leaves,
    _names,
    beside,
    given,
)
from .gates import gated
from .loops_while import bound_of
from .methods import inlined
from .numbers import dtype_for
from .picked import picks, with_picks
from .renaming import renamed
from .stores import Stores, in_place_call, without_views

if TYPE_CHECKING:
    from .convert import Converter


class ArmMaker:
    """Makes the prelude and the values of an arm.

    ``outer`` are names whose values outside count: they are read later (``live``), may be bound
    before, or stand in the other arm.
    """

    def __init__(
        self,
        converter: Converter,
        statements: Sequence[cst.BaseStatement],
        outer: set[str],
        holds: bool,
        live: set[str],
    ) -> None:
        self.converter = converter
        self.ctx = converter.ctx
        self.statements = list(statements)
        self.outer = outer
        self.live = live
        self.suffix = "then" if holds else "else"
        self.arm = Arm()
        #: Blocks that were made for stores of which no gradients are recorded.
        self.unrecorded: list[cst.BaseStatement] = []

    def made(self) -> Arm:
        for at, statement in enumerate(self.statements):
            rest = self.statements[at + 1 :]
            if isinstance(statement, cst.If) and self.converter.chosen(statement):
                leaves = _leaves(statement)
                self._choice(statement, rest)
                if leaves:
                    return self.arm
            else:
                self._statement(statement, rest)
            if self.arm.ends:
                return self.arm
        return self.arm

    def _statement(self, statement: cst.BaseStatement, rest: list[cst.BaseStatement]) -> None:
        if isinstance(statement, cst.SimpleStatementLine):
            if len(statement.body) != 1:
                raise Declined("several statements of a branch share a line")
            self._line(statement, statement.body[0], rest)
            return
        if exits(statement).jumps:
            raise Declined("a branch returns or jumps from inside a nested block")
        self.converter.vain.check(statement)
        match statement:
            case cst.FunctionDef():
                self.arm.prelude.append(renamed(statement, self.arm.renames))
            case cst.While():
                self._check_ends(statement)
                self._compound(statement, rest)
            case cst.If() | cst.For() | cst.With():
                self._compound(statement, rest)
            case _:
                raise Declined(
                    "a branch contains a block that cannot run when its result is not used"
                )

    # -- lines -------------------------------------------------------------------------------

    def _line(
        self,
        line: cst.SimpleStatementLine,
        small: cst.BaseSmallStatement,
        rest: list[cst.BaseStatement],
    ) -> None:
        match small:
            case cst.Pass() | cst.Expr(value=cst.BaseString() | cst.Ellipsis()):
                self.arm.comments += _comment_lines(line)
            case cst.Return(value=value):
                self.arm.ends = "return"
                self.arm.result = None if value is None else self._value(value)
                self.arm.comments += _comment_lines(line)
            case cst.Continue():
                self.arm.ends = "continue"
                self.arm.comments += _comment_lines(line)
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                self._assign(line, target, value, rest)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                self._assign(line, target, value, rest)
            case cst.AugAssign(target=cst.Name()):
                self._augment(line, small, rest)
            case cst.AugAssign(target=target, value=value):
                del target
                self._store(
                    line, self._stores().augmented(small, self._value(value), self._local())
                )
            case cst.Expr(value=value) if in_place_call(without_views(value)) is not None:
                call = self._value(without_views(value))
                assert isinstance(call, cst.Call)
                self._place(call)
                self._store(line, self._stores().called(call, self._local()))
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=cst.Name(name)))) if (
                name in self.arm.local
            ):
                self.arm.prelude.append(renamed(line, self.arm.renames))
            case cst.Expr(
                value=cst.Call(
                    func=cst.Attribute(value=cst.Name(name), attr=cst.Name("append")),
                    args=[cst.Arg(value=value, star="", keyword=None)],
                )
            ) if APPEND + name not in self.arm.values and name not in _all_names(rest):
                self.arm.comments += _comment_lines(line)
                self.arm.values[APPEND + name] = self._value(value)
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=cst.Name("self"))) as call):
                self._method(call, rest)
            case _:
                text = code(small).split("\n")[0]
                raise Declined(f"what `{text}` does is not known")

    def _method(self, call: cst.Call, rest: list[cst.BaseStatement]) -> None:
        """``self.method(...)`` for its effects: the statements of the method stand here."""
        for statement in inlined(call, self.ctx):
            self._statement(statement, rest)

    def _place(self, node: cst.CSTNode) -> None:
        """Before a place is written: what the arm holds back may read it, or be it."""
        if any(isinstance(it, cst.Name) and it.value in self.arm.values for it in walk(node)):
            self._flush()

    def _augment(
        self,
        line: cst.SimpleStatementLine,
        small: cst.AugAssign,
        rest: list[cst.BaseStatement],
    ) -> None:
        """``x += y``: a new value where ``x`` is a number or the function's own tensor."""
        target = small.target
        assert isinstance(target, cst.Name)
        fact = self.ctx.fact(target)
        own = target.value in self.arm.local or target.value in self.arm.values
        if fact is not None and fact.is_tensor and not own and not is_fresh(self.ctx, target.value):
            value = self._value(small.value)
            self._store(line, self._stores().augmented(small, value, self._local()))
            return
        operator = cst.Module([]).code_for_node(small.operator).strip().rstrip("=")
        right = code(small.value)
        if not isinstance(small.value, cst.Name | cst.Call | cst.Attribute | cst.BaseNumber):
            right = f"({right})" if not small.value.lpar else right
        value = cst.parse_expression(f"{target.value} {operator} {right}")
        self._assign(line, target, value, rest)

    def _assign(
        self,
        line: cst.SimpleStatementLine,
        target: cst.BaseAssignTargetExpression,
        value: cst.BaseExpression,
        rest: list[cst.BaseStatement],
    ) -> None:
        match target:
            case cst.Name(name):
                self._give(line, name, value, rest)
            case cst.Attribute() | cst.Subscript():
                if isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
                    if target.value.value in self.arm.local:
                        self.converter.vain.check(value)
                        self.arm.prelude.append(renamed(line, self.arm.renames))
                        return
                    self._place(target.value)
                place = renamed(target, self.arm.renames)
                stored = self._stores().bound(place, self._value(value), self._local())
                self._store(line, stored)
            case cst.Tuple() | cst.List():
                self._unpack(line, target, value, rest)
            case _:
                raise Declined("a branch unpacks values into something other than a list of names")

    def _unpack(
        self,
        line: cst.SimpleStatementLine,
        target: cst.Tuple | cst.List,
        value: cst.BaseExpression,
        rest: list[cst.BaseStatement],
    ) -> None:
        names = [e.value for e in target.elements]
        if not all(isinstance(name, cst.Name) for name in names):
            raise Declined("a branch unpacks values into attributes or items")
        texts = [code(name) for name in names]
        if isinstance(value, cst.Tuple) and len(value.elements) == len(names):
            values = [e.value for e in value.elements]
            if not any(set(texts) & _names(it) for it in values):
                for text, item in zip(texts, values, strict=True):
                    self._give(line, text, item, rest)
                return
        self.converter.vain.check(value)
        lowered = self._value(value)
        fresh = {
            text: self.ctx.fresh(f"{text}_{self.suffix}") for text in texts if text in self.outer
        }
        self.arm.prelude.append(
            line.with_changes(
                body=[cst.Assign([cst.AssignTarget(renamed(target, fresh))], self._gated(lowered))]
            )
        )
        for text in texts:
            self.arm.local.add(fresh.get(text, text))
            if text in fresh:
                self._bind(text, fresh[text])
                self._note(fresh[text], None)

    def _give(
        self,
        line: cst.SimpleStatementLine,
        name: str,
        value: cst.BaseExpression,
        rest: list[cst.BaseStatement],
    ) -> None:
        """``name = value``: a value of the arm, or a name that only the arm has."""
        fact = self.ctx.fact(value)
        if picks(value, self.ctx):
            value = with_picks(value, self.ctx, dtype_for(self.ctx, line, name))
        new = self._value(value)
        if name not in self.outer:
            self.arm.prelude.append(
                line.with_changes(body=[_retargeted(line.body[0], name, self._gated(new))])
            )
            self.arm.local.add(name)
            self._note(name, fact)
            return
        self.arm.comments += _comment_lines(line)
        if name in _all_names(rest):
            mine = self.ctx.fresh(f"{name}_{self.suffix}")
            self.arm.prelude.append(
                line.with_changes(leading_lines=[], body=[_assign(mine, self._gated(new)).body[0]])
            )
            self._bind(name, mine)
            self._note(mine, fact)
            return
        self.arm.renames.pop(name, None)
        self.arm.values[name] = new

    def _bind(self, name: str, mine: str) -> None:
        self.arm.renames[name] = mine
        self.arm.local.add(mine)
        self.arm.values[name] = cst.Name(mine)

    def _note(self, name: str, fact: object) -> None:
        from gbfix.schema import Fact

        if isinstance(fact, Fact):
            self.ctx.bound[name] = fact

    def _value(self, node: cst.BaseExpression) -> cst.BaseExpression:
        self.converter.vain.check(node)
        lowered = self.converter._whole(node)
        return renamed(lowered, self.arm.renames)

    def _gated(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """A value of the prelude: it is computed whatever the test says."""
        stores = self._stores()
        if not stores.gradients:
            return value
        return gated(value, stores.predicate(), True, self.ctx, self._local())

    # -- stores ------------------------------------------------------------------------------

    def _stores(self) -> Stores:
        statement = self.statements[0]
        gradients = self.converter._gradients_at(statement)
        return Stores(self.ctx, list(self.converter.path), gradients=gradients)

    def _local(self) -> frozenset[str]:
        return frozenset(self.arm.local)

    def _store(self, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> None:
        self._flush()
        new = line.with_changes(body=[small])
        stores = self._stores()
        if not (stores.gradients and stores.is_data_of_parameter(small)):
            self.arm.prelude.append(new)
            return
        last = self.arm.prelude[-1] if self.arm.prelude else None
        if last is not None and last in self.unrecorded:
            assert isinstance(last, cst.With) and isinstance(last.body, cst.IndentedBlock)
            self.arm.prelude.pop()
            body = [*last.body.body, new]
        else:
            body = [new]
        block = cst.With(
            [cst.WithItem(cst.parse_expression(f"{self.ctx.torch}.no_grad()"))],
            cst.IndentedBlock(body),
        )
        self.unrecorded.append(block)
        self.arm.prelude.append(block)

    def _flush(self) -> None:
        """Give names to what the arm holds back: a store may change what it reads."""
        for name, value in list(self.arm.values.items()):
            if isinstance(value, cst.Name) and value.value in self.arm.local:
                continue
            if name.startswith(APPEND):
                mine = self.ctx.fresh("appended")
                self.arm.prelude.append(_assign(mine, self._gated(value)))
                self.arm.values[name] = cst.Name(mine)
                self.arm.local.add(mine)
                continue
            mine = self.ctx.fresh(f"{name}_{self.suffix}")
            self.arm.prelude.append(_assign(mine, self._gated(value)))
            self._bind(name, mine)

    # -- blocks ------------------------------------------------------------------------------

    def _choice(self, node: cst.If, rest: list[cst.BaseStatement]) -> None:
        """A choice in the arm: its arms' preludes and values are the arm's."""
        leaves = _leaves(node)
        parts = self.converter._parts(node)
        if parts is not None:
            if leaves:
                raise Declined(
                    "a branch returns early, and a Python condition decides about that, too"
                )
            self._python_part(node, rest, *parts)
            return
        inner = self.converter.choice(node, rest if leaves else [])
        self.arm.prelude += [renamed(it, self.arm.renames) for it in inner.prelude]
        self.arm.comments += inner.comments
        if inner.ends:
            self.arm.ends = inner.ends
            self.arm.falls_off = inner.falls_off
            if inner.result is not None:
                self.arm.result = renamed(inner.result, self.arm.renames)
        renames = dict(self.arm.renames)
        for name, value in inner.values.items():
            new = renamed(value, renames)
            listed = name.removeprefix(APPEND) if name.startswith(APPEND) else ""
            if listed in self.arm.local:
                self.arm.prelude.append(given(name, new))
                continue
            if listed in _all_names(rest):
                raise Declined("a branch reads a list to which it has appended")
            if listed or (name in self.outer and name not in _all_names(rest)):
                self.arm.renames.pop(name, None)
                self.arm.values[name] = new
                continue
            mine = self.ctx.fresh(f"{name}_{self.suffix}") if name in self.outer else name
            self.arm.prelude.append(_assign(mine, self._gated(new)))
            if mine != name:
                self._bind(name, mine)
            else:
                self.arm.local.add(name)

    def _python_part(
        self,
        node: cst.If,
        rest: list[cst.BaseStatement],
        python: cst.BaseExpression,
        joint: str,
        tensor: cst.BaseExpression,
    ) -> None:
        inner = beside(self.ctx, node, python, joint, tensor)
        chosen = self.converter.chosen
        self.converter.chosen = lambda it: it is inner or chosen(it)
        self.ctx.origins[inner] = self.ctx.original(node)
        body, orelse = statements_in(node.body), statements_in(node.orelse)
        no = _decided(orelse, python, False)
        arms = ([inner], no) if joint == "and" else (body, [inner])
        new = node.with_changes(
            test=python,
            body=cst.IndentedBlock(arms[0]),
            orelse=else_with(arms[1]) if arms[1] else None,
        )
        self._compound(new, rest)
        self.converter.chosen = chosen

    def _compound(
        self, statement: cst.If | cst.For | cst.While | cst.With, rest: list[cst.BaseStatement]
    ) -> None:
        """A block of Python's in the arm: names that count outside get names of their own."""
        stored = sorted(activity(statement).writes & self.outer)
        names: dict[str, str] = {}
        for name in stored:
            if name in self.arm.renames:
                continue
            if name in self.arm.values:
                self._flush()
                continue
            mine = self.ctx.fresh(f"{name}_{self.suffix}")
            names[name] = mine
            wanted = name in self.live | _all_names(rest)
            reads = name in _read_first(statement)
            if self._is_new(statement, name):
                continue
            if reads or (wanted and not _always_binds([statement], name)):
                self.arm.prelude.append(_assign(mine, cst.Name(name)))
        for name, mine in names.items():
            self._bind(name, mine)
        self.arm.prelude.append(self._inside(statement))
        self.arm.local |= activity(statement).writes - self.outer

    def _is_new(self, statement: cst.BaseStatement, name: str) -> bool:
        """Whether the block is the first to bind the name, as far as the file's text tells."""
        origin = self.ctx.original(statement)
        if self.ctx.function is None or self.ctx.site.parent(origin) is None:
            return False
        known = name in maybe_bound_before(self.ctx.function, origin)
        return not known and name not in self.ctx.bound

    def _check_ends(self, loop: cst.While) -> None:
        """Refuse a loop that may never end where its branch is not taken."""
        try:
            bound_of(loop, Values(self.ctx.site))
        except Refusal as reason:
            raise Declined("a branch holds a loop that may not end") from reason

    def _inside(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        match statement:
            case cst.While():
                if statement.orelse is not None:
                    raise Declined("a loop of a branch has an `else`")
                self._check_ends(statement)
                return statement.with_changes(
                    test=renamed(statement.test, self.arm.renames),
                    body=self._suite(statements_in(statement.body)),
                )
            case cst.If():
                orelse = statements_in(statement.orelse)
                return statement.with_changes(
                    test=renamed(statement.test, self.arm.renames),
                    body=self._suite(statements_in(statement.body)),
                    orelse=else_with(self._lines(orelse)) if orelse else None,
                )
            case cst.For():
                if statement.orelse is not None:
                    raise Declined("a loop of a branch has an `else`")
                return statement.with_changes(
                    target=renamed(statement.target, self.arm.renames),
                    iter=renamed(statement.iter, self.arm.renames),
                    body=self._suite(statements_in(statement.body)),
                )
            case cst.With():
                off = any(self.ctx.turns_off(item.item) for item in statement.items)
                self.converter.quiet += off
                try:
                    return statement.with_changes(body=self._suite(statements_in(statement.body)))
                finally:
                    self.converter.quiet -= off
        raise Declined("a branch contains a block that cannot run when its result is not used")

    def _given(self, statement: cst.BaseStatement) -> object:
        """What is known of the value that a line gives a name."""
        match statement:
            case cst.SimpleStatementLine(body=[cst.Assign(value=value)]):
                return self.ctx.fact(value)
        return None

    def _suite(self, statements: Sequence[cst.BaseStatement]) -> cst.IndentedBlock:
        return cst.IndentedBlock(unspaced(self._lines(statements)))

    def _lines(self, statements: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """Statements inside a block: names are bound at once, stores keep to the path."""
        result: list[cst.BaseStatement] = []
        for statement in statements:
            maker = ArmMaker(
                self.converter, [statement], set(self.outer), self.suffix == "then", self.live
            )
            maker.arm.renames = dict(self.arm.renames)
            maker.arm.local = set(self.arm.local)
            if _is_jump(statement):
                result.append(statement)  # of a loop within the branch: that is its own matter
            elif _raises(statement):
                result.append(renamed(statement, self.arm.renames))
            elif isinstance(statement, cst.SimpleStatementLine) or (
                isinstance(statement, cst.If)
                and self.converter.chosen(statement)
                and not exits(statement).jumps
            ):
                arm = maker.made()
                result += arm.prelude
                for name, value in arm.values.items():
                    if name.startswith(APPEND):
                        raise Declined("a branch appends to a list in a block of its own")
                    target = self.arm.renames.get(name, name)
                    if code(value) != target:
                        result.append(_assign(target, value))
                        self._note(target, self._given(statement))
                self.arm.comments += arm.comments
            else:
                self.converter.vain.check(statement)
                result.append(self._inside(statement))
        return result


def _is_jump(statement: cst.BaseStatement) -> bool:
    match statement:
        case cst.SimpleStatementLine(body=[cst.Break() | cst.Continue()]):
            return True
    return False


def _raises(statement: cst.BaseStatement) -> bool:
    """Whether it raises an error on which Python decides (`Vain` has looked at it)."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Raise()]):
            return True
    return False


def _always_binds(lines: Sequence[cst.BaseStatement], name: str) -> bool:
    """Whether statements bind a name whatever Python decides in them.

    A ``with`` may swallow the error that keeps its block from binding.
    """
    for line in lines:
        if _raises(line):
            return True  # nothing reads the name then
        match line:
            case cst.SimpleStatementLine(body=[cst.Assign(targets=targets)]):
                parts = [part for target in targets for part in walk(target.target)]
                stores = [part for part in parts if isinstance(part, cst.Name)]
                plain = all(isinstance(part, cst.Name | cst.Tuple | cst.Element) for part in parts)
                if plain and any(part.value == name for part in stores):
                    return True
            case cst.If(body=body) if orelse := statements_in(line.orelse):
                if _always_binds(statements_in(body), name) and _always_binds(orelse, name):
                    return True
    return False


def _retargeted(
    small: cst.BaseSmallStatement, name: str, value: cst.BaseExpression
) -> cst.BaseSmallStatement:
    if isinstance(small, cst.AnnAssign):
        return small.with_changes(value=value)
    return cst.Assign([cst.AssignTarget(cst.Name(name))], value)


def _comment_lines(line: cst.SimpleStatementLine) -> list[cst.EmptyLine]:
    """The comments above and behind a line, as lines of their own."""
    found = _commented(leading_lines(line))
    trailing = line.trailing_whitespace.comment
    if trailing is not None:
        found.append(cst.EmptyLine(comment=trailing))
    return found


__all__ = ["ArmMaker", "comments_in"]


def _read_first(statement: cst.BaseStatement) -> frozenset[str]:
    """The names of which a block may read what they held before it."""
    template = cst.parse_statement("def f():\n    pass\n")
    assert isinstance(template, cst.FunctionDef)
    body = cst.IndentedBlock([statement.with_changes(leading_lines=())])
    function = template.with_changes(body=body)
    return live_before(function, body.body[0])
