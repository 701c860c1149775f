"""Forward dataflow: which names are bound, and which closures may exist, at each statement."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterable

import libcst as cst

from gbfix.analysis.activity import Activity, activity, parameters_of
from gbfix.analysis.exits import constant_test, irrefutable
from gbfix.analysis.tree import children, dotted, statements_of, words

Names = frozenset[str]
_NONE: Names = frozenset()

#: Context managers (by the last part of their name) that never swallow an exception.
TRANSPARENT_MANAGERS = words(
    """no_grad enable_grad set_grad_enabled inference_mode autocast record_function device stream
    profile detect_anomaly set_detect_anomaly set_multithreading_enabled open nullcontext closing
    sdpa_kernel saved_tensors_hooks save_on_cpu fork_rng catch_warnings redirect_stdout
    redirect_stderr skip_init disable_saved_tensors_hooks"""
)


def suppresses_errors(node: cst.With) -> bool:
    """Whether one of the context managers may swallow an exception raised in the block."""
    for item in node.items:
        expression = item.item
        if isinstance(expression, cst.Call):
            expression = expression.func
        last = expression.attr if isinstance(expression, cst.Attribute) else expression
        if not (isinstance(last, cst.Name) and last.value in TRANSPARENT_MANAGERS):
            return True
    return False


def target_names(target: cst.BaseExpression) -> Names:
    """The names that assigning to the target binds."""
    if isinstance(target, cst.Name):
        return frozenset({target.value})
    if isinstance(target, cst.Tuple | cst.List):
        return _union(target_names(element.value) for element in target.elements)
    return _NONE


def times_bound(function: cst.FunctionDef, name: str) -> int:
    """How many places in a function bind or unbind a name, its parameters and what stands inside
    it included; ``global`` and ``nonlocal`` count, too."""
    count = 0
    for node in ast.walk(ast.parse(cst.Module([]).code_for_node(function).strip())):
        match node:
            case ast.Name(id=text, ctx=ast.Store() | ast.Del()) | ast.arg(arg=text):
                count += text == name
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                count += text == name
            case ast.ExceptHandler(name=text) | ast.MatchAs(name=text) | ast.MatchStar(name=text):
                count += text == name
            case ast.alias(name=text, asname=other):
                count += (other or text.partition(".")[0]) == name
            case ast.Global(names=texts) | ast.Nonlocal(names=texts):
                count += name in texts
            case ast.MatchMapping(rest=text):
                count += text == name
    return count


def certainly_binds(node: cst.CSTNode) -> Names:
    """Names that are bound whenever the expression or simple statement ends without an error.

    Nested functions and classes are simple here: they bind their own name.
    """
    match node:
        case cst.Assign():
            targets = _union(target_names(target.target) for target in node.targets)
            return certainly_binds(node.value) | targets
        case cst.AnnAssign():
            if node.value is None:
                return _NONE
            return certainly_binds(node.value) | target_names(node.target)
        case cst.AugAssign():
            return certainly_binds(node.value) | target_names(node.target)
        case cst.NamedExpr():
            return certainly_binds(node.value) | target_names(node.target)
        case cst.Import():
            return frozenset(_alias_name(alias) for alias in node.names)
        case cst.ImportFrom():
            if isinstance(node.names, cst.ImportStar):
                return _NONE
            return frozenset(_alias_name(alias) for alias in node.names)
        case cst.FunctionDef() | cst.ClassDef() | cst.TypeAlias():
            return frozenset({node.name.value})
        case cst.Assert() | cst.Lambda() | cst.Annotation():
            return _NONE  # asserts vanish under -O
        case cst.BooleanOperation():
            return certainly_binds(node.left)
        case cst.IfExp():
            either = certainly_binds(node.body) & certainly_binds(node.orelse)
            return certainly_binds(node.test) | either
        case cst.Comparison(comparisons=[first, *_]):
            return certainly_binds(node.left) | certainly_binds(first.comparator)
        case cst.ListComp() | cst.SetComp() | cst.DictComp() | cst.GeneratorExp():
            return certainly_binds(node.for_in.iter)
    return _union(certainly_binds(child) for child in children(node))


def binds_when(test: cst.BaseExpression, truth: bool) -> Names:
    """Names that are bound once the test has come out as ``truth``."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return binds_when(test.expression, not truth)
    if isinstance(test, cst.BooleanOperation):
        both = isinstance(test.operator, cst.And) is truth
        left = binds_when(test.left, truth)
        if both:
            return left | binds_when(test.right, truth)
    return certainly_binds(test)


def pattern_names(pattern: cst.MatchPattern) -> Names:
    """The names that a pattern binds when it matches."""
    return activity(pattern).writes


@dataclasses.dataclass(frozen=True)
class State:
    """What holds at a point: names surely bound, names perhaps bound, names closures may use."""

    definite: Names
    maybe: Names
    captured: Names = _NONE

    def bind(self, names: Names) -> State:
        return dataclasses.replace(self, definite=self.definite | names, maybe=self.maybe | names)

    def unbind(self, names: Names) -> State:
        return dataclasses.replace(self, definite=self.definite - names, maybe=self.maybe - names)

    def after(self, node: cst.CSTNode, what: Activity, certain: Names) -> State:
        """The state after an expression or simple statement."""
        removed = what.deletes if isinstance(node, cst.Del) else _NONE
        return State(
            (self.definite - what.deletes) | certain,
            (self.maybe | what.writes) - removed,
            self.captured | what.captures,
        )


def join(states: Iterable[State | None]) -> State | None:
    """What holds where several ways meet; None (unreachable) is no way at all."""
    joined: State | None = None
    for state in states:
        if state is None:
            continue
        joined = (
            state
            if joined is None
            else State(
                joined.definite & state.definite,
                joined.maybe | state.maybe,
                joined.captured | state.captured,
            )
        )
    return joined


@dataclasses.dataclass
class _Ways:
    """States that leave by a jump or an error, gathered until they are caught."""

    breaks: list[State | None] = dataclasses.field(default_factory=list)
    continues: list[State | None] = dataclasses.field(default_factory=list)
    returns: list[State | None] = dataclasses.field(default_factory=list)
    errors: list[State | None] = dataclasses.field(default_factory=list)


class States:
    """The states at all statements of one function."""

    def __init__(self, function: cst.FunctionDef) -> None:
        self._before: dict[cst.CSTNode, State | None] = {}
        self._after: dict[cst.CSTNode, State | None] = {}
        self._activities: dict[cst.CSTNode, Activity] = {}
        whole = activity(function.body)
        parameters = frozenset(parameters_of(function.params))
        self.names = parameters | whole.writes | whole.deletes | whole.declares
        self.declared_outside = whole.globals | whole.nonlocals
        # A closure can bind or unbind these at any call once it exists.
        self._bound_in_closures = whole.closure_writes & whole.writes
        self._unbound_in_closures = whole.closure_writes & whole.deletes
        self._block(function.body, State(parameters, parameters | self.declared_outside), _Ways())

    def activity(self, node: cst.CSTNode) -> Activity:
        found = self._activities.get(node)
        if found is None:
            found = self._activities[node] = activity(node)
        return found

    def definitely_before(self, statement: cst.CSTNode) -> Names:
        return self._definite(self._state(self._before, statement))

    def definitely_after(self, statement: cst.CSTNode) -> Names:
        return self._definite(self._state(self._after, statement))

    def maybe_before(self, statement: cst.CSTNode) -> Names:
        state = self._state(self._before, statement)
        if state is None:
            return _NONE
        return state.maybe | (self._bound_in_closures & state.captured)

    def captured_before(self, statement: cst.CSTNode) -> Names:
        """Names that a closure made before the statement may use."""
        state = self._state(self._before, statement)
        return _NONE if state is None else state.captured

    def reachable(self, statement: cst.CSTNode) -> bool:
        """Whether control may reach the statement."""
        return self._state(self._before, statement) is not None

    def _definite(self, state: State | None) -> Names:
        return self.names if state is None else state.definite - self._unbound_in_closures

    def _state(self, record: dict[cst.CSTNode, State | None], node: cst.CSTNode) -> State | None:
        try:
            return record[node]
        except KeyError:
            message = "the statement does not stand in this function's own body"
            raise ValueError(message) from None

    # -- the flow ----------------------------------------------------------------------------

    def _block(self, block: cst.CSTNode, state: State | None, ways: _Ways) -> State | None:
        """The state at the end of a block, a line of statements, an ``else`` or a ``finally``."""
        self._record(self._before, block, state)
        if isinstance(block, cst.Else | cst.Finally):
            state = self._block(block.body, state, ways)
        else:
            for statement in statements_of(block):
                state = self._statement(statement, state, ways)
        self._record(self._after, block, state)
        return state

    def _statement(self, node: cst.CSTNode, state: State | None, ways: _Ways) -> State | None:
        if isinstance(node, cst.SimpleStatementLine):
            return self._block(node, state, ways)
        self._record(self._before, node, state)
        result = self._flow(node, state, ways)
        self._record(self._after, node, result)
        return result

    def _record(
        self, record: dict[cst.CSTNode, State | None], node: cst.CSTNode, state: State | None
    ) -> None:
        record[node] = join((record.get(node), state))

    def _flow(self, node: cst.CSTNode, state: State | None, ways: _Ways) -> State | None:
        match node:
            case cst.If():
                return self._if(node, state, ways)
            case cst.While() | cst.For():
                return self._loop(node, state, ways)
            case cst.Try() | cst.TryStar():
                return self._try(node, state, ways)
            case cst.With():
                return self._with(node, state, ways)
            case cst.Match():
                return self._match(node, state, ways)
            case cst.Break():
                ways.breaks.append(state)
                return None
            case cst.Continue():
                ways.continues.append(state)
                return None
        after = self._evaluate(node, state, ways)
        if isinstance(node, cst.Return):
            ways.returns.append(after)
            return None
        if isinstance(node, cst.Raise):
            return None
        return after

    def _evaluate(self, node: cst.CSTNode, state: State | None, ways: _Ways) -> State | None:
        """The state after an expression or simple statement, errors on the way included."""
        if state is None:
            return None
        what = self.activity(node)
        after = state.after(node, what, certainly_binds(node))
        ways.errors += [state, after]
        return after

    def _test(
        self, test: cst.BaseExpression, state: State | None, ways: _Ways
    ) -> tuple[State | None, State | None]:
        """The states where the test came out true, and false."""
        after = self._evaluate(test, state, ways)
        truth = constant_test(test)
        if after is None:
            return None, None
        return (
            None if truth is False else after.bind(binds_when(test, True)),
            None if truth is True else after.bind(binds_when(test, False)),
        )

    def _if(self, node: cst.If, state: State | None, ways: _Ways) -> State | None:
        true, false = self._test(node.test, state, ways)
        then = self._block(node.body, true, ways)
        if isinstance(node.orelse, cst.If):
            return join((then, self._statement(node.orelse, false, ways)))
        if node.orelse is not None:
            return join((then, self._block(node.orelse, false, ways)))
        return join((then, false))

    def _loop(self, node: cst.While | cst.For, state: State | None, ways: _Ways) -> State | None:
        if isinstance(node, cst.For):
            state = self._evaluate(node.iter, state, ways)
        head = state
        while True:
            inner = _Ways(returns=ways.returns, errors=ways.errors)
            entered: State | None
            done: State | None
            if isinstance(node, cst.While):
                entered, done = self._test(node.test, head, inner)
            else:
                done = head
                entered = head and head.bind(target_names(node.target))
                ways.errors.append(entered)
            end = self._block(node.body, entered, inner)
            again = join((head, end, *inner.continues))
            if again == head:
                break
            head = again
        if node.orelse is not None:
            done = self._block(node.orelse, done, ways)
        return join((done, *inner.breaks))

    def _try(self, node: cst.Try | cst.TryStar, state: State | None, ways: _Ways) -> State | None:
        inner = _Ways()
        inner.errors.append(state)
        end = self._block(node.body, state, inner)
        caught = join(inner.errors)  # also what leaves when no handler matches
        if node.orelse is not None:
            end = self._block(node.orelse, end, inner)
        ends = [end]
        for handler in node.handlers:
            ends.append(self._handler(handler, caught, inner))
        end = join(ends)
        if node.finalbody is None:
            ways.breaks += inner.breaks
            ways.continues += inner.continues
            ways.returns += inner.returns
            ways.errors += inner.errors
            return end
        final = node.finalbody
        for kind in ("breaks", "continues", "returns", "errors"):
            pending: list[State | None] = getattr(inner, kind)
            if pending:
                getattr(ways, kind).append(self._block(final, join(pending), ways))
        return self._block(final, end, ways)

    def _handler(
        self,
        handler: cst.ExceptHandler | cst.ExceptStarHandler,
        state: State | None,
        ways: _Ways,
    ) -> State | None:
        if handler.type is not None:
            state = self._evaluate(handler.type, state, ways)
        name = _NONE if handler.name is None else target_names(handler.name.name)
        inner = _Ways()
        end = self._block(handler.body, state and state.bind(name), inner)
        # Whichever way the handler is left, its name is unbound.
        for kind in ("breaks", "continues", "returns", "errors"):
            found: list[State | None] = getattr(inner, kind)
            getattr(ways, kind).extend(state and state.unbind(name) for state in found)
        return end and end.unbind(name)

    def _with(self, node: cst.With, state: State | None, ways: _Ways) -> State | None:
        inner = _Ways(ways.breaks, ways.continues, ways.returns)
        for item in node.items:
            state = self._evaluate(item.item, state, inner)
            if item.asname is not None and state is not None:
                state = state.bind(target_names(item.asname.name))
                inner.errors.append(state)
        end = self._block(node.body, state, inner)
        ways.errors += inner.errors
        return join((end, *inner.errors)) if suppresses_errors(node) else end

    def _match(self, node: cst.Match, state: State | None, ways: _Ways) -> State | None:
        state = self._evaluate(node.subject, state, ways)
        ends: list[State | None] = []
        for case in node.cases:
            names = pattern_names(case.pattern)
            matched = state and state.bind(names)
            ways.errors.append(matched)
            # A pattern that fails half-way may have bound some of its names.
            failed = join((state, matched))
            if case.guard is not None:
                matched, unguarded = self._test(case.guard, matched, ways)
                failed = join((failed, unguarded))
            elif irrefutable(case.pattern):
                failed = None
            ends.append(self._block(case.body, matched, ways))
            state = failed
        return join((*ends, state))


@functools.lru_cache(maxsize=64)
def states(function: cst.FunctionDef) -> States:
    """The states of a function's own statements (not of functions inside it)."""
    return States(function)


def _alias_name(alias: cst.ImportAlias) -> str:
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    return (dotted(alias.name) or "").partition(".")[0]


def _union(sets: Iterable[Names]) -> Names:
    return frozenset().union(*sets)
