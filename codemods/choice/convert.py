"""If-conversion: a block with choices becomes a block without, arm by arm.

Each arm becomes a *prelude* (statements that run whatever the test says) and *values* (what it
leaves in names, and what it returns).  The values of both arms meet in one ``torch.where`` each.
Stores to attributes, elements and in place stand in the prelude, under the arm's path: they keep
what is there where the path is not taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.binding import states
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import live_after, maybe_bound_before
from gbfix.analysis.names import telling_name
from gbfix.analysis.purity import effects_of
from gbfix.analysis.torch_names import INT_DTYPES
from gbfix.analysis.tree import code, dotted, walk

from .absent import with_users
from .aliases import check_alias
from .blocks import Block, else_with, ends_control, leading_lines, size_of, statements_in, unspaced
from .context import Context, Declined
from .early import Parts, check_early, first_exit
from .expressions import Expressions
from .finiteness import asks_for_finiteness
from .inline import finish
from .matching import as_ifs
from .numbers import dtype_for
from .pushing import Pushed, Pushing
from .selects import Selects
from .tests import Test, decided_by_tensor, guarded_test, lower, primary, split
from .vain import Vain

_DUPLICATED = 8  # statements that may stand twice rather than not be converted
_ASKED_FIRST, _TIMES = 24, 3  # statements of a choice that stands once for each of Python's answers


def _only_leaves(body: Block) -> bool:
    """Whether an arm does no more than to leave: what follows runs all the same without it."""
    match list(body):
        case [cst.SimpleStatementLine(body=[cst.Return(value=None | cst.Name()) | cst.Continue()])]:
            return True
    return False


@dataclasses.dataclass
class Arm:
    """What an arm does whatever the test says, and what it leaves."""

    prelude: list[cst.BaseStatement] = dataclasses.field(default_factory=list)
    values: dict[str, cst.BaseExpression] = dataclasses.field(default_factory=dict)
    result: cst.BaseExpression | None = None
    ends: str = ""  # "return", "continue" or ""
    #: Whether the function ends there without a ``return`` in at least one of two arms.
    falls_off: bool = False
    comments: list[cst.EmptyLine] = dataclasses.field(default_factory=list)
    renames: dict[str, str] = dataclasses.field(default_factory=dict)
    local: set[str] = dataclasses.field(default_factory=set)


class Converter:
    """Converts the blocks of one function; ``chosen`` says which choices are to go."""

    def __init__(
        self,
        ctx: Context,
        chosen: Callable[[cst.CSTNode], bool],
        *,
        modules: bool = False,
    ) -> None:
        self.ctx = ctx
        self.chosen = chosen
        self.vain = Vain(ctx, modules=modules)
        self.path: list[tuple[Test, bool]] = []
        self.tests: list[str] = []  # names of tests that this conversion made
        self.converted = 0
        self.takes_reads = True
        self.pushing = Pushing(ctx)
        #: Names that stand for places which both arms store to.
        self.places: dict[str, cst.BaseExpression] = {}
        #: Names that tests within arms bind: they are bound where those branches stand.
        self.bound_ahead: set[str] = set()
        self.asked_first = 0
        self.quiet = 0  # blocks around that turn gradients off

    # -- blocks ------------------------------------------------------------------------------

    def block(self, statements: Block) -> list[cst.BaseStatement]:
        """The statements with every chosen choice converted; the same nodes where none is."""
        result: list[cst.BaseStatement] = []
        moved = 0
        for at, statement in enumerate(statements):
            if moved:
                moved -= 1
                continue
            if isinstance(statement, cst.Match) and self.chosen(statement):
                statement = self._as_ifs(statement)
            if isinstance(statement, cst.If) and self.chosen(statement):
                found = with_users(statement, statements[:at], statements[at + 1 :], self.ctx)
                if found is not None:
                    statement = self._known(found.choice, statement)
                    self.ctx.origins[found.choice] = found.users[-1]  # what is read behind it
                    result = [it for it in result if it not in found.idle]
                    for other in found.first:
                        result += self._statement(other)
                    moved = len(found.users) + len(found.first)
            if isinstance(statement, cst.If) and self._is_choice(statement):
                leaves = _leaves(statement)
                rest = list(statements[at + 1 :]) if leaves else []
                result += self._emitted(statement, rest)
                if leaves:
                    return result
            else:
                result += self._statement(statement)
        return result

    def _as_ifs(self, node: cst.Match) -> cst.BaseStatement:
        """A ``match`` in which data decides, as the chain of ``if`` that it stands for."""
        whole = link = as_ifs(node)
        chosen, made = self.chosen, set()
        while isinstance(link, cst.If):
            made.add(link)
            self.ctx.origins[link] = node
            link = link.orelse if isinstance(link.orelse, cst.If) else None
        self.chosen = lambda it: (
            decided_by_tensor(it.test, self.ctx)
            if isinstance(it, cst.If) and it in made
            else chosen(it)
        )
        return whole or node

    def _is_choice(self, node: cst.If) -> bool:
        """Whether the ``if``, or one in its arms that leaves the block, is to be converted."""
        if self.chosen(node):
            return True
        inner = [it for it in walk(node) if isinstance(it, cst.If) and self.chosen(it)]
        return any(_leaves(it) for it in inner)

    def _statement(self, statement: cst.BaseStatement) -> list[cst.BaseStatement]:
        match statement:
            case cst.SimpleStatementLine():
                return self._line(statement)
            case cst.If():
                test = self._whole(statement.test)
                body = self._inner(statement.body)
                orelse = statement.orelse
                if orelse is not None:
                    inner = [orelse] if isinstance(orelse, cst.If) else statements_in(orelse.body)
                    new = self.block(inner)
                    if new != list(inner):
                        orelse = else_with(new)
                if test is statement.test and body is statement.body and orelse is statement.orelse:
                    return [statement]
                return [statement.with_changes(test=test, body=body, orelse=orelse)]
            case cst.For() | cst.With() | cst.While():
                body = self._inner(statement.body)
                if body is statement.body:
                    return [statement]
                return [statement.with_changes(body=body)]
            case cst.Match():
                cases = [self._case(case) for case in statement.cases]
                same = all(a is b for a, b in zip(cases, statement.cases, strict=True))
                return [statement if same else statement.with_changes(cases=cases)]
            case cst.Try():
                body = self._inner(statement.body)
                return [statement if body is statement.body else statement.with_changes(body=body)]
        return [statement]

    def _case(self, case: cst.MatchCase) -> cst.MatchCase:
        body = self._inner(case.body)
        return case if body is case.body else case.with_changes(body=body)

    def _inner(self, body: cst.BaseSuite) -> cst.BaseSuite:
        old = statements_in(body)
        new = self.block(old)
        return body if new == old else cst.IndentedBlock(new)

    def _whole(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """An expression whose choices are converted where they stand."""
        node = cast(cst.BaseExpression, self._pushed(node))
        return Expressions(self.ctx, self.chosen, self._gradients(node)).lowered(node, self)

    def _line(self, line: cst.SimpleStatementLine) -> list[cst.BaseStatement]:
        read = self._read(line)
        if read is not None:
            return [read]
        number = self._number(line)
        if number is not None:
            return [number]
        line = cast(cst.SimpleStatementLine, self._pushed(line))
        if not any(self.chosen(node) for node in walk(line)):
            return [line]
        if len(line.body) != 1:
            raise Declined("several statements share a line with a choice")
        match line.body:
            case [
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(name))], value=cst.IfExp() as value
                )
            ] if self.chosen(value):
                check_alias(self.ctx, line, name, (value.body, value.orelse))
        maker = Expressions(self.ctx, self.chosen, self._gradients(line))
        maker.hoisting = True
        maker.dtype = dtype_for(self.ctx, line)
        new = line.visit(maker.transformer(self))
        assert isinstance(new, cst.SimpleStatementLine)
        self.tests += maker.names
        if not maker.hoisted:
            return [new]
        head, *others = [*maker.hoisted, new.with_changes(leading_lines=())]
        return finish([head.with_changes(leading_lines=line.leading_lines), *others], maker.names)

    def _pushed(self, node: cst.CSTNode) -> cst.CSTNode:
        return self.pushing.into(node, Selects(self.ctx, gradients=False))

    def _number(self, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine | None:
        """``n = a if t else b`` of Python numbers: they go into their uses, a test stays."""
        match line.body:
            case [
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(name))], value=cst.IfExp() as value
                )
            ] if self.chosen(value) and split(value.test, self.ctx).python is None:
                arms = (value.body, value.orelse)
                if not self._is_float(arms) or not self.pushing.takes(name, arms):
                    return None
                self.converted += 1
                test = lower(value.test, self.ctx)
                mine = self.ctx.fresh(_short(telling_name(cst.parse_expression(test.text))))
                self.pushing.numbers[name] = Pushed(Test(mine, test.negated), *arms)
                new = _assign(mine, cst.parse_expression(test.text)).body
                return line.with_changes(body=new)
        return None

    def _is_float(self, values: Sequence[cst.BaseExpression]) -> bool:
        facts = [self.ctx.fact(value) for value in values]
        kinds = [fact.kind if fact is not None else "" for fact in facts]
        return "float" in kinds and all(kind in ("int", "float") for kind in kinds)

    def _read(self, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine | None:
        """``n = t.item()`` where only choices ask for ``n``: the tensor itself."""
        match line.body:
            case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))]) as small]:
                value = self.ctx.reads.get(name)
                if value is None or not self.takes_reads:
                    return None
                text = code(value)
                fact = self.ctx.fact(value)
                whole = fact is not None and fact.dtype in INT_DTYPES
                if not whole and self._gradients(line) and not self.ctx.only_compared(name):
                    text = f"{primary(text)}.detach()"
                if self.ctx.may_divide_by_zero(name):
                    self.ctx.doubts.append(
                        f"where `{name}` is 0, the original raises ZeroDivisionError"
                    )
                if self.ctx.goes_into_elements(name):
                    text = f"{primary(text)}.double()"  # as precise as the number was
                new = small.with_changes(value=cst.parse_expression(text))
                return line.with_changes(body=[new])
        return None

    def _gradients(self, node: cst.CSTNode) -> bool:
        return not self.quiet and not self.ctx.without_gradients(node)

    def _gradients_at(self, statement: cst.CSTNode) -> bool:
        try:
            return self._gradients(self.ctx.original(statement))
        except KeyError:
            return True

    # -- one choice --------------------------------------------------------------------------

    def _emitted(self, node: cst.If, rest: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """A choice of this block, with what follows it where an arm leaves the block."""
        parts = self._parts(node)
        if parts is not None:
            return self._beside_python(node, rest, *parts)
        if _leaves(node):
            early = self._asked_first(node, rest)
            if early is not None:
                return early
        before = len(self.tests)
        arm = self.choice(node, rest)
        new = [*arm.prelude, *self._assigned(arm)]
        if arm.ends == "return" and not arm.falls_off:
            new.append(cst.SimpleStatementLine([cst.Return(arm.result)]))
        if not new:
            new = [cst.SimpleStatementLine([cst.Pass()])]
        above = [*leading_lines(node), *arm.comments]
        head = new[0]
        new[0] = head.with_changes(leading_lines=[*above, *_commented(leading_lines(head))])
        return finish(new, self.tests[before:])

    def _assigned(self, arm: Arm) -> list[cst.BaseStatement]:
        """What the arms left, given to the names."""
        items = [(name, value) for name, value in arm.values.items() if code(value) != name]
        names = {name for name, _ in items}
        crossed = any(
            names - {name} & _names(value) and (names - {name}) & _names(value)
            for name, value in items
        )
        if crossed and not any(name.startswith(APPEND) for name, _ in items):
            left = cst.Tuple([cst.Element(cst.Name(name)) for name, _ in items], lpar=(), rpar=())
            right = cst.Tuple([cst.Element(value) for _, value in items], lpar=(), rpar=())
            return [cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(left)], right)])]
        return [given(name, value, self.places.get(name)) for name, value in items]

    def _parts(self, node: cst.If) -> Parts | None:
        if not self.chosen(node):
            return (node.test, "", node.test)
        parts = split(node.test, self.ctx)
        if parts.python is None or parts.tensor is None:
            return None
        return parts.python, parts.joint, parts.tensor

    def _beside_python(
        self,
        node: cst.If,
        rest: list[cst.BaseStatement],
        python: cst.BaseExpression,
        joint: str,
        tensor: cst.BaseExpression,
    ) -> list[cst.BaseStatement]:
        """``if P and t`` becomes an ``if P`` with the choice inside, ``if P or t`` one beside."""
        body, orelse = statements_in(node.body), statements_in(node.orelse)
        inner = beside(self.ctx, node, python, joint, tensor)
        taken = set(self.ctx.taken)
        if joint == "and":
            yes = self._tail([inner], rest, node)
            no = self._tail(_decided(orelse, python, False), rest)
        elif joint == "or":
            yes = self._tail(body, rest)
            no = self._tail([inner], rest, node)
        else:
            yes, no = self._tail(body, rest), self._tail(orelse, rest)
        if (
            rest
            and size_of(rest) > _DUPLICATED
            and not (ends_control(yes) and not ends_control(rest))
        ):
            if joint == "and" and not orelse and _only_leaves(body):
                self.ctx.taken = taken
                guarded = guarded_test(python, tensor, rest, self.ctx)
                return self._emitted(self._known(node.with_changes(test=guarded), node), rest)
            raise Declined("what follows the branch would have to be written twice")
        new = node.with_changes(
            test=python,
            body=cst.IndentedBlock(unspaced(yes)),
            orelse=else_with(no) if no and not (ends_control(yes) and rest) else None,
        )
        if no and ends_control(yes) and rest:
            return [new, *no]
        return [new]

    def _asked_first(
        self, node: cst.If, rest: list[cst.BaseStatement]
    ) -> list[cst.BaseStatement] | None:
        """The choice below what Python asks where an arm is left; None where it asks nothing."""
        arms = [
            it if ends_control(it) else [*it, *rest]
            for it in (statements_in(node.body), statements_in(node.orelse))
        ]
        whole = self._made_of(node, *arms)
        found = first_exit(
            whole, self._parts, lambda it: (statements_in(it.body), statements_in(it.orelse))
        )
        if found is None:
            return None
        inner, parts = found
        check_early(parts[0], whole, self.ctx)
        if size_of([whole]) > _ASKED_FIRST or self.asked_first == _TIMES:
            raise Declined("what follows the branch would have to be written twice")
        self.asked_first += 1
        yes, no = statements_in(inner.body), statements_in(inner.orelse)
        if parts[1]:
            left = self._known(beside(self.ctx, inner, *parts), inner)
            if parts[1] == "and":
                yes, no = [left], _decided(no, parts[0], False)
            else:
                no = [left]
        taken = set(self.ctx.taken)
        new_yes = self._emitted(self._replaced(whole, inner, yes), [])
        self.ctx.taken, taken = taken, self.ctx.taken  # one of the two runs: names may be the same
        new_no = self._emitted(self._replaced(whole, inner, no), [])
        self.ctx.taken |= taken
        ends = ends_control(new_yes)
        new = node.with_changes(
            test=parts[0],
            body=cst.IndentedBlock(unspaced(new_yes)),
            orelse=None if ends else else_with(new_no),
        )
        return [new, *new_no] if ends else [new]

    def _replaced(self, node: cst.If, inner: cst.If, statements: Block) -> cst.If:
        """The choice with statements in the place of an ``if`` in its arms, wherever it stands."""
        arms = []
        for arm in (statements_in(node.body), statements_in(node.orelse)):
            made: list[cst.BaseStatement] = []
            for statement in arm:
                if statement is inner:
                    made += statements
                elif isinstance(statement, cst.If) and inner in walk(statement):
                    made.append(self._replaced(statement, inner, statements))
                else:
                    made.append(statement)
                if ends_control(made):
                    break
            arms.append(made)
        return self._made_of(node, *arms)

    def _made_of(self, origin: cst.If, body: Block, orelse: Block) -> cst.If:
        """A choice as another has it, with other arms."""
        made = origin.with_changes(
            body=cst.IndentedBlock(unspaced(body)),
            orelse=else_with(orelse) if orelse else None,
            leading_lines=(),
        )
        return self._known(made, origin)

    def _known(self, made: cst.If, origin: cst.If) -> cst.If:
        """An ``if`` that counts as a choice where another does."""
        chosen, decided = self.chosen, self.chosen(origin)
        self.chosen = lambda it: decided if it is made else chosen(it)
        self.ctx.origins[made] = origin
        return made

    def _tail(
        self,
        statements: list[cst.BaseStatement],
        rest: list[cst.BaseStatement],
        origin: cst.If | None = None,
    ) -> list[cst.BaseStatement]:
        """An arm of Python's with what follows it, converted."""
        whole = statements if ends_control(statements) else [*statements, *rest]
        if origin is None:
            return self.block(whole)
        inner, *others = whole
        assert isinstance(inner, cst.If)
        chosen = self.chosen
        self.chosen = lambda it: it is inner or chosen(it)
        self.ctx.origins[inner] = origin
        try:
            if _leaves(inner):
                return self._emitted(inner, others)
            return [*self._emitted(inner, []), *self.block(others)]
        finally:
            self.chosen = chosen

    # -- arms --------------------------------------------------------------------------------

    def choice(self, node: cst.If, rest: list[cst.BaseStatement]) -> Arm:
        """Both arms of a tensor's test as one."""
        self.converted += 1
        function = self.ctx.function
        if function is None:
            raise Declined("the branch is not in a function")
        whole = Arm()
        body, orelse = statements_in(node.body), statements_in(node.orelse)
        if _leaves(node):
            if not ends_control(body):
                body = [*body, *rest]
            if not ends_control(orelse):
                orelse = [*orelse, *rest]
            if body[-len(rest) :] == orelse[-len(rest) :] != [] and size_of(rest) > _DUPLICATED:
                raise Declined("what follows the branch would have to be written twice")
        body, orelse = (self._bound_ahead(statements) for statements in (body, orelse))
        body, orelse = self._stored_either_way(body, orelse)
        whole.prelude += self._walruses(node.test)
        test = self._named(node, whole, [*body, *orelse])
        origin = self.ctx.original(node)
        if self.ctx.site.parent(origin) is None:
            raise Declined("it is not known what is used after the branch")
        live = set(live_after(function, origin)) | set(self.places)
        if exits(node).continues:
            live |= self._carried(origin)
        # What an arm binds must not change what other values read under that name.
        kept = live | maybe_bound_before(function, origin)
        yes = self._arm(body, orelse, live, kept, test, True)
        no = self._arm(orelse, body, live, kept, test, False)
        whole.prelude += [*yes.prelude, *no.prelude]
        whole.comments = [*yes.comments, *no.comments]
        self._meet(whole, yes, no, test, origin, live)
        return whole

    def _stored_either_way(
        self, body: list[cst.BaseStatement], orelse: list[cst.BaseStatement]
    ) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
        """A place that both arms store to once is stored to once, behind the choice."""
        if self.path:
            return body, orelse
        for at, statement in enumerate(body):
            place = _place_of(statement)
            if place is None:
                continue
            there = [i for i, it in enumerate(orelse) if _is_store(it, place)]
            if len(there) != 1 or any(
                code(place) in code(it) for it in (*body[at + 1 :], *orelse[there[0] + 1 :])
            ):
                continue
            name = self.ctx.fresh(telling_name(place))
            self.places[name] = place
            body[at] = _to_name(statement, name)
            orelse[there[0]] = _to_name(orelse[there[0]], name)
        return body, orelse

    def _fall_off(self, whole: Arm, yes: Arm, no: Arm, node: cst.CSTNode) -> bool:
        """Whether one arm returns nothing, and the other comes to the end of the function.

        What follows the choice in its blocks is part of the arms by then.
        """
        for arm in (yes, no):
            result = arm.result
            nothing = result is None or (isinstance(result, cst.Name) and result.value == "None")
            if arm.ends not in ("return", "") or not nothing:
                return False
        for parent in self.ctx.site.ancestors(node):
            if isinstance(parent, cst.FunctionDef):
                whole.falls_off = parent is self.ctx.function and not _yields(parent)
                return whole.falls_off
            if not isinstance(parent, cst.If | cst.Else | cst.IndentedBlock):
                return False
        return False

    def _carried(self, node: cst.CSTNode) -> set[str]:
        """Names whose values go on into the next round, or on after the loop."""
        assert self.ctx.function is not None
        for parent in self.ctx.site.ancestors(node):
            if isinstance(parent, cst.For | cst.While):
                last = statements_in(parent.body)[-1]
                return set(live_after(self.ctx.function, last))
        return set()

    def _bound_ahead(self, statements: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """The statements of an arm; a name that a test in there binds is a value of the arm."""
        made: list[cst.BaseStatement] = []
        for statement in statements:
            if isinstance(statement, cst.If) and (ahead := self._walruses(statement.test)):
                parts = list(walk(statement.test))
                if any(isinstance(it, cst.BooleanOperation | cst.IfExp) for it in parts):
                    if self.chosen(statement):
                        raise Declined("the test of a branch within a branch may bind a name")
                    made.append(statement)
                    continue
                new = statement.with_changes(test=_without_walrus(statement.test))
                inner = self._known(new, statement)
                self.bound_ahead |= set(activity(statement.test).bound)
                made += [*ahead, inner]
            else:
                made.append(statement)
        return made

    def _walruses(self, test: cst.BaseExpression) -> list[cst.BaseStatement]:
        found = [node for node in walk(test) if isinstance(node, cst.NamedExpr)]
        return [_assign(code(node.target), _bare(node.value)) for node in found]

    def _named(self, node: cst.If, whole: Arm, arms: Block) -> Test:
        """The test under a name of its own; it is written out later where it is used once."""
        test = lower(_without_walrus(node.test), self.ctx)
        done = activity(list(arms))
        parsed = cst.parse_expression(test.text)
        asked = _without_walrus(node.test)
        while isinstance(asked, cst.UnaryOperation) and isinstance(asked.operator, cst.Not):
            asked = asked.expression
        told: cst.CSTNode = parsed
        if isinstance(parsed, cst.Call) and code(parsed.func) == f"{self.ctx.torch}.as_tensor":
            told = parsed.args[0].value
        if isinstance(parsed, cst.IfExp):
            told = parsed.body
        base = telling_name(told)
        if isinstance(asked, cst.Name | cst.Attribute):
            base = f"was_{telling_name(asked)}" if done.mutates else telling_name(asked)
        own = isinstance(parsed, cst.Name | cst.Attribute | cst.Subscript)
        if own and (done.mutates or any(call.startswith("self.") for call in done.calls)):
            test = dataclasses.replace(test, text=f"{test.text}.clone()")
            base = base if base.startswith("was_") else f"was_{base}"
        elif test.text.isidentifier() and test.text not in done.writes:
            return test
        name = self.ctx.fresh(_short(base))
        self.tests.append(name)
        whole.prelude.append(_assign(name, cst.parse_expression(test.text)))
        return Test(name, test.negated)

    def _arm(
        self,
        statements: list[cst.BaseStatement],
        others: Block,
        live: set[str],
        kept: set[str],
        test: Test,
        holds: bool,
    ) -> Arm:
        from .arms import ArmMaker

        self.path.append((test, holds))
        try:
            return ArmMaker(self, statements, kept | _all_names(others), holds, live).made()
        finally:
            self.path.pop()

    def _meet(
        self, whole: Arm, yes: Arm, no: Arm, test: Test, node: cst.CSTNode, live: set[str]
    ) -> None:
        assert self.ctx.function is not None
        selects = Selects(self.ctx, gradients=self._gradients(node))
        question = getattr(node, "test", None)
        selects.guards = question is not None and asks_for_finiteness(question, self.ctx)
        local = frozenset(yes.local | no.local)
        bound = maybe_bound_before(self.ctx.function, node) | set(self.ctx.bound)
        bound |= self.bound_ahead
        if "return" in (yes.ends, no.ends):
            if yes.ends != no.ends and not self._fall_off(whole, yes, no, node):
                raise Declined("one branch returns where the other does not")
            none = cst.Name("None")
            whole.ends = "return"
            whole.falls_off |= (yes.falls_off or no.falls_off) and yes.result is no.result is None
            selects.dtype = dtype_for(self.ctx, node)
            if not whole.falls_off:
                if yes.falls_off or no.falls_off:
                    raise Declined("one branch gives a value, and another one may give none")
                whole.result = selects.select(test, yes.result or none, no.result or none, local)
            outside = states(self.ctx.function).declared_outside & {*yes.values, *no.values}
            if outside and whole.result is not None and _names(whole.result) & outside:
                # It is made of what these names held before.
                name = self.ctx.fresh("result")
                whole.prelude.append(_assign(name, whole.result))
                whole.result = cst.Name(name)
            for name in sorted(outside):
                pair = (
                    yes.values.get(name) or cst.Name(name),
                    no.values.get(name) or cst.Name(name),
                )
                selects.dtype = dtype_for(self.ctx, node, name, getattr(node, "test", None))
                check_alias(self.ctx, node, name, pair)
                whole.values[name] = selects.select(test, *pair, local)
            return
        for name in [*yes.values, *(it for it in no.values if it not in yes.values)]:
            if name not in live and not name.startswith(APPEND):
                continue
            one, other = yes.values.get(name), no.values.get(name)
            if name.startswith(APPEND):
                if one is None or other is None:
                    raise Declined(f"one branch appends to `{name.removeprefix(APPEND)}`")
                whole.values[name] = selects.select(test, one, other, local)
                continue
            if one is None or other is None:
                given = one if one is not None else other
                assert given is not None
                if name not in bound:
                    whole.values[name] = given  # unbound on the other path
                    continue
                one, other = one or cst.Name(name), other or cst.Name(name)
            pair = (one, other)
            if not self.path and self._is_float(pair) and self.pushing.takes(name, pair):
                self.pushing.numbers[name] = Pushed(test, *pair)
                if test.text in self.tests:
                    self.tests.remove(test.text)
                continue
            selects.dtype = dtype_for(self.ctx, node, name, getattr(node, "test", None))
            check_alias(self.ctx, node, name, (one, other))
            whole.values[name] = selects.select(test, one, other, local)


def _yields(function: cst.FunctionDef) -> bool:
    return any(isinstance(node, cst.Yield) for node in walk(function.body))


#: The name of a value that is appended to a list: this, and the list.
APPEND = "append to "


def given(
    name: str, value: cst.BaseExpression, place: cst.BaseExpression | None = None
) -> cst.SimpleStatementLine:
    """The statement that gives a value of an arm to its name, or to its place."""
    if place is not None:
        target = cst.AssignTarget(cast(cst.BaseAssignTargetExpression, place))
        return cst.SimpleStatementLine([cst.Assign([target], value)])
    if not name.startswith(APPEND):
        return _assign(name, value)
    listed = cst.Attribute(cst.Name(name.removeprefix(APPEND)), cst.Name("append"))
    return cst.SimpleStatementLine([cst.Expr(cst.Call(listed, [cst.Arg(value)]))])


# -- pieces ------------------------------------------------------------------------------------


def _place_of(node: cst.BaseStatement) -> cst.Attribute | cst.Subscript | None:
    match node:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Attribute() | cst.Subscript() as place)]
                )
            ]
        ):
            assert isinstance(place, cst.Attribute | cst.Subscript)
            return place
    return None


def _is_store(node: cst.BaseStatement, place: cst.BaseExpression) -> bool:
    found = _place_of(node)
    return found is not None and code(found) == code(place)


def _to_name(node: cst.BaseStatement, name: str) -> cst.BaseStatement:
    """The store as an assignment to a name."""
    assert isinstance(node, cst.SimpleStatementLine)
    small = cst.ensure_type(node.body[0], cst.Assign)
    target = cst.AssignTarget(cst.Name(name))
    return node.with_changes(body=[small.with_changes(targets=[target])])


def _short(text: str) -> str:
    return text if len(text) <= 28 else text[:28].rpartition("_")[0] or text[:28]


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=(), rpar=()) if node.lpar else node


def _without_walrus(test: cst.BaseExpression) -> cst.BaseExpression:
    """The test with the names in the places of its assignments, for facts the old node."""
    if not any(isinstance(node, cst.NamedExpr) for node in walk(test)):
        return test

    class Names(cst.CSTTransformer):
        def leave_NamedExpr(
            self, original_node: cst.NamedExpr, updated_node: cst.NamedExpr
        ) -> cst.BaseExpression:
            return updated_node.target

    new = test.visit(Names())
    assert isinstance(new, cst.BaseExpression)
    return new


def beside(
    ctx: Context, node: cst.If, python: cst.BaseExpression, joint: str, tensor: cst.BaseExpression
) -> cst.If:
    """The choice of a tensor that is left where Python has had its part in the test."""
    orelse = statements_in(node.orelse)
    # A test that does more than to compute may change what Python is asked behind it.
    if effects_of(tensor, ctx.fact).pure:
        orelse = _decided(orelse, python, joint == "and")
    return node.with_changes(
        test=tensor, leading_lines=(), orelse=else_with(orelse) if orelse else None
    )


def _decided(lines: Block, python: cst.BaseExpression, truth: bool) -> list[cst.BaseStatement]:
    """What is left of ``if P: ... else: ...`` where P was just asked."""
    match lines:
        case [cst.If(test=test, body=body) as again] if _asks_again(python, test):
            if not _commented(leading_lines(again)):
                return statements_in(body) if truth else statements_in(again.orelse)
    return list(lines)


def _asks_again(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two tests are the same question about names, attributes and literals."""
    for node in (one, other):
        parts = [node]
        if isinstance(node, cst.Comparison):
            parts = [node.left, *(target.comparator for target in node.comparisons)]
        plain = (cst.BaseNumber, cst.SimpleString)
        if not all(isinstance(part, plain) or dotted(part) is not None for part in parts):
            return False
    return code(one) == code(other)


def _commented(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    return [line for line in lines if line.comment is not None]


def _assign(name: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value)])


def _names(node: cst.CSTNode) -> set[str]:
    return {inner.value for inner in walk(node) if isinstance(inner, cst.Name)}


def _all_names(statements: Block) -> set[str]:
    return set().union(*(_names(statement) for statement in statements), set())


def _leaves(node: cst.CSTNode) -> bool:
    """Whether control may leave the block: a ``return``, or a ``continue`` of a loop outside."""
    found = exits(node)
    if found.breaks:
        raise Declined("`break` leaves a loop")
    return bool(found.returns or found.continues)
