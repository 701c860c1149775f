"""Which names may be read later, and which are bound, at a statement of a function.

Both are dataflow analyses over structured control flow, computed once for a function and kept for
the last functions asked about.  They err on the safe side: a *live* name may turn out never to be
read, a *maybe bound* name may be unbound, a *definitely bound* name is bound whenever control gets
there.  Statements are named by identity and may stand at any depth (a statement line, a compound
statement, a small statement of a line, or the block that holds them), but not inside a nested
function: ask about that function itself.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import libcst as cst

from gbfix.analysis import binding
from gbfix.analysis.activity import parameters_of
from gbfix.analysis.exits import constant_test, irrefutable
from gbfix.analysis.tree import statements_of

Names = frozenset[str]
_NONE: Names = frozenset()


def live_before(function: cst.FunctionDef, statement: cst.CSTNode) -> Names:
    """Names whose value just before the statement may be read from there on."""
    return _of(_liveness(function).before, statement)


def live_after(function: cst.FunctionDef, statement: cst.CSTNode) -> Names:
    """Names whose value may be read once the statement has ended normally.

    Inside a loop the next round counts; a name that a closure made earlier may use counts always;
    so do names declared global or nonlocal.  For a statement that jumps (``return``, ``break``,
    ``raise``) it is what is live where control goes.
    """
    return _of(_liveness(function).after, statement)


def live_on_error(function: cst.FunctionDef, statement: cst.CSTNode) -> Names:
    """Names whose value may be read if the statement raises (handlers, ``finally``, others)."""
    return _of(_liveness(function).on_error, statement)


def definitely_bound_before(function: cst.FunctionDef, statement: cst.CSTNode) -> Names:
    """Local names that are bound whenever control reaches the statement (parameters included).

    Where control never gets (after ``return``), every name of the function is.
    """
    return binding.states(function).definitely_before(statement)


def definitely_bound_after(function: cst.FunctionDef, statement: cst.CSTNode) -> Names:
    """Local names that are bound whenever the statement ends normally."""
    return binding.states(function).definitely_after(statement)


def maybe_bound_before(function: cst.FunctionDef, statement: cst.CSTNode) -> Names:
    """Local names that may be bound when control reaches the statement (parameters included)."""
    return binding.states(function).maybe_before(statement)


class _Ahead(NamedTuple):
    """What is live where each kind of jump, and an error, leads to."""

    returns: Names
    breaks: Names
    continues: Names
    errors: Names


class _Liveness:
    """Live names before and after every statement of one function."""

    def __init__(self, function: cst.FunctionDef) -> None:
        self.before: dict[cst.CSTNode, Names] = {}
        self.after: dict[cst.CSTNode, Names] = {}
        self.on_error: dict[cst.CSTNode, Names] = {}
        self._states = binding.states(function)
        first = parameters_of(function.params)[:1]
        self._read_by_super = frozenset(first)
        # Others see these names whenever they like.
        outside = self._states.declared_outside
        self._block(function.body, outside, _Ahead(outside, outside, outside, outside))

    def _block(self, block: cst.CSTNode, after: Names, ahead: _Ahead) -> Names:
        self._note(self.on_error, block, ahead.errors | self._captured_after(block))
        live = after
        if isinstance(block, cst.Else | cst.Finally):
            live = self._block(block.body, live, ahead)
        else:
            for statement in reversed(statements_of(block)):
                live = self._statement(statement, live, ahead)
        if isinstance(block, cst.SimpleStatementLine):
            after = self.after[block.body[-1]]  # a jump goes elsewhere than to the next line
        self._note(self.after, block, after | self._captured_after(block))
        live |= self._states.captured_before(block)
        self._note(self.before, block, live)
        return live

    def _statement(self, node: cst.CSTNode, after: Names, ahead: _Ahead) -> Names:
        if isinstance(node, cst.SimpleStatementLine):
            return self._block(node, after, ahead)
        match node:
            case cst.Return():
                after = ahead.returns
            case cst.Raise():
                after = ahead.errors
            case cst.Break():
                after = ahead.breaks
            case cst.Continue():
                after = ahead.continues
        after |= self._captured_after(node)
        self._note(self.after, node, after)
        self._note(self.on_error, node, ahead.errors | self._captured_after(node))
        live = self._flow(node, after, ahead) | self._states.captured_before(node)
        self._note(self.before, node, live)
        return live

    def _captured_after(self, node: cst.CSTNode) -> Names:
        return self._states.captured_before(node) | self._states.activity(node).captures

    def _note(self, record: dict[cst.CSTNode, Names], node: cst.CSTNode, names: Names) -> None:
        record[node] = record.get(node, _NONE) | names

    def _flow(self, node: cst.CSTNode, after: Names, ahead: _Ahead) -> Names:
        match node:
            case cst.If():
                return self._if(node, after, ahead)
            case cst.While():
                return self._while(node, after, ahead)
            case cst.For():
                return self._for(node, after, ahead)
            case cst.Try() | cst.TryStar():
                return self._try(node, after, ahead)
            case cst.With():
                return self._with(node, after, ahead)
            case cst.Match():
                return self._match(node, after, ahead)
            case cst.Return():
                return self._evaluate(node, ahead.returns, ahead)
            case cst.Raise():
                return self._evaluate(node, _NONE, ahead)
            case cst.Break() | cst.Continue():
                return after
        return self._evaluate(node, after, ahead)

    def _reads(self, node: cst.CSTNode) -> Names:
        """Names whose value the node may use; a name to be deleted must be there, too."""
        what = self._states.activity(node)
        reads = what.reads | what.deletes
        if what.zero_super:
            reads |= self._read_by_super
        return reads | self._states.names if what.frame_access else reads

    def _evaluate(self, node: cst.CSTNode, after: Names, ahead: _Ahead) -> Names:
        """Live before an expression or simple statement."""
        live = self._reads(node) | (after - binding.certainly_binds(node))
        return live if _cannot_raise(node) else live | ahead.errors

    def _if(self, node: cst.If, after: Names, ahead: _Ahead) -> Names:
        then = self._block(node.body, after, ahead)
        if isinstance(node.orelse, cst.If):
            otherwise = self._statement(node.orelse, after, ahead)
        elif node.orelse is not None:
            otherwise = self._block(node.orelse, after, ahead)
        else:
            otherwise = after
        return self._test(node.test, then, otherwise, ahead)

    def _test(
        self, test: cst.BaseExpression, when_true: Names, when_false: Names, ahead: _Ahead
    ) -> Names:
        truth = constant_test(test)
        after = _NONE
        if truth is not False:
            after |= when_true - binding.binds_when(test, True)
        if truth is not True:
            after |= when_false - binding.binds_when(test, False)
        return self._evaluate(test, after, ahead)

    def _while(self, node: cst.While, after: Names, ahead: _Ahead) -> Names:
        done = after if node.orelse is None else self._block(node.orelse, after, ahead)
        head = _NONE
        while True:
            inner = ahead._replace(breaks=after, continues=head)
            body = self._block(node.body, head, inner)
            again = self._test(node.test, body, done, ahead) | head
            if again == head:
                return head
            head = again

    def _for(self, node: cst.For, after: Names, ahead: _Ahead) -> Names:
        done = after if node.orelse is None else self._block(node.orelse, after, ahead)
        target = cst.AssignTarget(node.target)
        bound, reads = binding.target_names(node.target), self._reads(target)
        head = _NONE
        while True:
            inner = ahead._replace(breaks=after, continues=head)
            body = self._block(node.body, head, inner)
            again = reads | (body - bound) | done | ahead.errors | head
            if again == head:
                return self._evaluate(node.iter, head, ahead)
            head = again

    def _try(self, node: cst.Try | cst.TryStar, after: Names, ahead: _Ahead) -> Names:
        final = node.finalbody
        if final is not None:
            # The finally block runs on every way out, and then the way goes on.
            ahead, outer = (
                _Ahead(*(self._block(final, names, ahead) for names in ahead)),
                ahead,
            )
            after = self._block(final, after, outer)
        handlers = ahead.errors
        for handler in node.handlers:
            handlers |= self._handler(handler, after, ahead)
        done = after if node.orelse is None else self._block(node.orelse, after, ahead)
        inner = ahead._replace(errors=handlers)
        return self._block(node.body, done, inner)

    def _handler(
        self,
        handler: cst.ExceptHandler | cst.ExceptStarHandler,
        after: Names,
        ahead: _Ahead,
    ) -> Names:
        name = _NONE if handler.name is None else binding.target_names(handler.name.name)
        gone = _Ahead(*(names - name for names in ahead))
        live = self._block(handler.body, after - name, gone) - name
        # The type of a later handler is looked at when this one does not match; `_try` joins them.
        return live if handler.type is None else self._evaluate(handler.type, live, ahead)

    def _with(self, node: cst.With, after: Names, ahead: _Ahead) -> Names:
        if binding.suppresses_errors(node):
            ahead = ahead._replace(errors=ahead.errors | after)
        live = self._block(node.body, after, ahead)
        for item in reversed(node.items):
            if item.asname is not None:
                live -= binding.target_names(item.asname.name)
                live |= self._reads(item.asname) | ahead.errors
            live = self._evaluate(item.item, live, ahead)
        return live

    def _match(self, node: cst.Match, after: Names, ahead: _Ahead) -> Names:
        following = after
        for case in reversed(node.cases):
            live = self._block(case.body, after, ahead)
            if case.guard is not None:
                live = self._test(case.guard, live, following, ahead)
            live -= binding.pattern_names(case.pattern)
            if case.guard is None and irrefutable(case.pattern):
                following = live | self._reads(case.pattern)
            else:
                following |= live | self._reads(case.pattern) | ahead.errors
        return self._evaluate(node.subject, following, ahead)


def _cannot_raise(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Assign):
        return _is_literal(node.value) and all(
            isinstance(target.target, cst.Name) for target in node.targets
        )
    return isinstance(node, cst.Pass | cst.Global | cst.Nonlocal)


def _is_literal(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Name):
        return node.value in ("True", "False", "None")
    return isinstance(node, cst.Integer | cst.Float | cst.SimpleString)


@functools.lru_cache(maxsize=64)
def _liveness(function: cst.FunctionDef) -> _Liveness:
    return _Liveness(function)


def _of(record: dict[cst.CSTNode, Names], statement: cst.CSTNode) -> Names:
    try:
        return record[statement]
    except KeyError:
        raise ValueError("the statement does not stand in this function's own body") from None
