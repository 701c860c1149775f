"""Cuts a compiled function in two around a statement that cannot be compiled.

`halves_of` says whether that is right, and what passes between the parts; `Halves.text` writes
them.  All that a half needs is passed to it by name, so that closures, ``global`` statements,
generators and names that may be unbound are refused.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import definitely_bound_before, live_before
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import Scope, function_scope, resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

Body = Sequence[cst.BaseStatement]
_COMPUTES = (
    cst.Call
    | cst.BinaryOperation
    | cst.UnaryOperation
    | cst.Subscript
    | cst.Comparison
    | cst.AugAssign
    | cst.BaseCompoundStatement
)
_NEWLINE = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")


class CannotSplit(Exception):
    """Why the function cannot be cut, in words for the user."""


@dataclasses.dataclass(frozen=True)
class Half:
    """A part of the function: its statements, what it takes and what it gives back."""

    name: str
    statements: Body
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    returns: bool = False

    @property
    def trivial(self) -> bool:
        """Whether there is nothing in it to compile: it only names, returns or passes on."""
        return not any(
            isinstance(node, _COMPUTES) for statement in self.statements for node in walk(statement)
        )


@dataclasses.dataclass(frozen=True)
class Halves:
    """A function cut in two around ``middle``."""

    function: cst.FunctionDef
    docstring: Body
    before: Half
    middle: Body
    after: Half


def halves_of(site: Site, function: cst.FunctionDef, statement: cst.BaseStatement) -> Halves:
    """The two halves around a statement of the function's own block; `CannotSplit` if not right."""
    body = function.body
    if not isinstance(body, cst.IndentedBlock) or statement not in body.body:
        raise CannotSplit("the statement does not stand at the top level of the function")
    if site.parent(function) is not site.module:
        raise CannotSplit("the function does not stand at module level")
    scope = function_scope(function)
    _check_scope(function, scope)
    statements = list(body.body)
    first = 1 if function.get_docstring(clean=False) is not None else 0
    index = statements.index(statement)
    before, after = statements[first:index], statements[index + 1 :]
    if exits(before).returns:
        raise CannotSplit("the function may return before it gets there")
    if exits(statement).returns:
        raise CannotSplit("the statement itself may return")
    taken = names_in(site.module)
    halves = []
    order = _order(function, scope)
    for part, word in ((before, "before"), (after, "after")):
        name = fresh(f"{function.name.value}_{word}", taken)
        takes = _needed(function, scope, part, order)
        halves.append(Half(name, part, takes, (), returns=part is after))
    gives = _given(function, before, statement, order)
    start = dataclasses.replace(halves[0], gives=gives)
    if start.trivial and halves[1].trivial:
        raise CannotSplit("nothing else in the function is worth compiling")
    return Halves(function, statements[:first], start, [statement], halves[1])


def _check_scope(function: cst.FunctionDef, scope: Scope) -> None:
    what = activity(function.body)
    if function.asynchronous is not None or exits(function.body).yields:
        raise CannotSplit("generators and coroutines cannot be cut")
    if exits(function.body).awaits:
        raise CannotSplit("generators and coroutines cannot be cut")
    if scope.cells or scope.nonlocals or scope.declared_globals or what.deletes:
        raise CannotSplit("inner functions, `global` or `del` tie the two parts together")
    if what.dynamic or what.frame_access:
        raise CannotSplit("the function looks at its own frame")


def _order(function: cst.FunctionDef, scope: Scope) -> tuple[str, ...]:
    """Local names in the order in which a reader meets them: parameters, then as they are bound."""
    names = dict.fromkeys(parameters_of(function.params))
    for node in walk(function.body):
        if isinstance(node, cst.Name) and node.value in scope.locals:
            names.setdefault(node.value)
    return tuple(names)


def _needed(
    function: cst.FunctionDef, scope: Scope, part: Body, order: tuple[str, ...]
) -> tuple[str, ...]:
    """The local names whose values the part needs."""
    if not part:
        return ()
    live = live_before(function, part[0]) & scope.locals & _mentioned(part)
    unbound = live - definitely_bound_before(function, part[0])
    if unbound:
        raise CannotSplit(f"`{sorted(unbound)[0]}` may be unbound there")
    return tuple(name for name in order if name in live)


def _mentioned(part: Body) -> frozenset[str]:
    """Names that the part uses itself: what only later parts use does not pass through it."""
    what = activity(part)
    return what.reads | what.bound | what.mutates


def _given(
    function: cst.FunctionDef, before: Body, statement: cst.CSTNode, order: tuple[str, ...]
) -> tuple[str, ...]:
    """What the first half binds and somebody behind it reads."""
    bound = activity(before).binds & live_before(function, statement)
    unbound = bound - definitely_bound_before(function, statement)
    if unbound:
        raise CannotSplit(f"`{sorted(unbound)[0]}` may be unbound there")
    return tuple(name for name in order if name in bound)


def compile_decorator(site: Site, function: cst.FunctionDef) -> cst.Decorator:
    """The decorator that compiles; it has to be the innermost one, and the only one of its kind."""
    compiling = [
        decorator for decorator in function.decorators if _is_compile(site, decorator.decorator)
    ]
    if len(compiling) != 1 or compiling[0] is not function.decorators[-1]:
        raise CannotSplit("the function is not compiled by its own innermost decorator")
    return compiling[0]


def _is_compile(site: Site, node: cst.BaseExpression) -> bool:
    called = node.func if isinstance(node, cst.Call) else node
    return resolve(site.module, called) == "torch.compile"


class Writer:
    """Writes the parts with the very lines of the file."""

    def __init__(self, site: Site, decorator: cst.Decorator) -> None:
        self._site = site
        self._lines = [line for line in _NEWLINE.split(site.source) if line]
        self._newline = site.module.default_newline
        self._decorator = self.lines(site.span(decorator).line, site.span(decorator).end_line)

    def half(self, half: Half) -> str:
        """A half as a function of its own, decorated as the whole was."""
        lines = _NEWLINE.split(self.lines_of(half.statements))
        while lines and not lines[0].strip():
            lines.pop(0)
        text = "".join(lines)
        indent = self._indent(half.statements[0])
        parameters = ", ".join(half.takes)
        if half.gives:
            text += f"{indent}return {', '.join(half.gives)}{self._newline}"
        return f"{self._decorator}def {half.name}({parameters}):{self._newline}{text}"

    def call(self, half: Half) -> str:
        """The line that calls a half where its statements stood."""
        call = f"{half.name}({', '.join(half.takes)})"
        if half.returns:
            call = f"return {call}"
        elif half.gives:
            call = f"{', '.join(half.gives)} = {call}"
        return f"{self._indent(half.statements[0])}{call}{self._newline}"

    def lines_of(self, statements: Body) -> str:
        """Whole lines of statements with the comments above them."""
        if not statements:
            return ""
        last = self._site.span(statements[-1]).end_line
        return self.lines(self.first_line(statements[0]), last)

    def first_line(self, statement: cst.BaseStatement) -> int:
        """The first line of a statement; comments, blank lines and decorators above it count."""
        decorators = getattr(statement, "decorators", ())
        line = self._site.span(decorators[0] if decorators else statement).line
        return line - len(getattr(statement, "leading_lines", ()))

    def _indent(self, statement: cst.BaseStatement) -> str:
        span = self._site.span(statement)
        return self._lines[span.line - 1][: span.column]

    def lines(self, first: int, last: int) -> str:
        """Whole lines of the file, both included; the last one ends in a newline."""
        if last < first:
            return ""
        text = "".join(self._lines[first - 1 : last])
        return text if text.endswith(("\n", "\r")) else text + self._newline

    def last_line(self, function: cst.FunctionDef) -> int:
        """The last line of a function; comments below its last statement count."""
        body, last = function.body, self._site.span(function).end_line
        footer = list(body.footer) if isinstance(body, cst.IndentedBlock) else []
        while footer and footer[-1].comment is None:
            footer.pop()
        return last + len(footer)

    def header(self, function: cst.FunctionDef, decorator: cst.Decorator) -> str:
        """The function's own ``def`` with its other decorators."""
        first = self._site.span(function).line
        body = function.body
        assert isinstance(body, cst.IndentedBlock)
        last = self.first_line(body.body[0]) - 1
        others = [other for other in function.decorators if other is not decorator]
        above = "".join(
            self.lines(self._site.span(other).line, self._site.span(other).end_line)
            for other in others
        )
        return above + self.lines(first, last)
