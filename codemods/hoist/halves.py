"""Cuts a compiled function into parts around statements that must run in Python.

`cut` says whether that is right, and rewrites the function's body: each longest run of other
statements becomes a function of its own (a *part*) that takes the names it reads and gives back the
names that somebody reads later; the staying statements keep their place.  A compound statement
(``with``, ``try``, a loop, an ``if``) that holds a staying one stays too, and its blocks are cut in
the same way, so that contexts, handlers and loops go on around the parts as before.

All that a part needs is passed to it by name, so that closures, generators, globals that a part
would bind and names that may be unbound are refused.
"""

from __future__ import annotations

import builtins
import dataclasses
import re
from collections.abc import Callable, Collection, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.binding import suppresses_errors
from gbfix.analysis.build import assign, call, returns
from gbfix.analysis.exits import always_returns, exits
from gbfix.analysis.liveness import (
    definitely_bound_after,
    definitely_bound_before,
    live_after,
    live_before,
    live_on_error,
)
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import Scope, function_scope, resolve
from gbfix.analysis.tree import children, code, walk, words
from gbfix.codemod import Edit, Rewrite, Site

Body = Sequence[cst.BaseStatement]
_COMPUTES = cst.Call | cst.BinaryOperation | cst.UnaryOperation | cst.Subscript | cst.Comparison
#: Calls that are nothing to compile, whatever they are called on.
_PLAIN = words("append extend len isinstance range zip enumerate print str list tuple dict")
_EXCEPTIONS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
)
#: Their `__exit__` lets every error through.
_LOCKS = words(
    """_thread.lock _thread.RLock threading.Condition threading.Semaphore
    threading.BoundedSemaphore multiprocessing.synchronize.Lock
    multiprocessing.synchronize.RLock"""
)
#: More parts than this are no gain for the reader.
_MOST_PARTS = 6


_WORD = re.compile(r"\w+")


class CannotSplit(Exception):
    """Why the function cannot be cut, in words for the user."""


@dataclasses.dataclass
class Part:
    """A run of statements that becomes a function: what it takes and what it gives back.

    ``tail`` says that it ends the function: its ``return`` is the function's own.
    """

    statements: Body
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    tail: bool
    placed: str = ""
    name: str = ""


@dataclasses.dataclass(frozen=True)
class Cut:
    """A function's new body, and the parts that it calls, in the order of the text."""

    body: Body
    parts: tuple[Part, ...]


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


def cut(site: Site, function: cst.FunctionDef, stays: Callable[[cst.CSTNode], bool]) -> Cut:
    """Cut the function's body around the simple statements (or heads) for which ``stays`` is true.

    Raises `CannotSplit` where that is not right.
    """
    body = function.body
    if not isinstance(body, cst.IndentedBlock):
        raise CannotSplit("the function stands on one line")
    scope = function_scope(function)
    check_scope(function, scope)
    receiver = receiver_of(site, function)
    cutter = _Cutter(site, function, scope, receiver, stays)
    statements = list(body.body)
    first = 1 if function.get_docstring(clean=False) is not None else 0
    new = [*statements[:first], *cutter.block(statements[first:], outermost=True)]
    if not cutter.parts:
        raise CannotSplit("nothing else in the function is worth compiling")
    if len(cutter.parts) > _MOST_PARTS:
        raise CannotSplit("it would fall into too many parts")
    renamed = name_parts(site, function, cutter.parts, receiver)
    finished = tuple(_rename(statement, renamed) for statement in new)
    return Cut(finished, tuple(cutter.parts))


def _rename(statement: cst.BaseStatement, names: dict[str, str]) -> cst.BaseStatement:
    class Rename(cst.CSTTransformer):
        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
            if updated_node.value in names:
                return updated_node.with_changes(value=names[updated_node.value])
            return updated_node

    new = statement.visit(Rename())
    assert isinstance(new, cst.BaseStatement)
    return new


def name_parts(
    site: Site, function: cst.FunctionDef, parts: Sequence[Part], receiver: str
) -> dict[str, str]:
    """Names for the parts that nothing uses: ``f_before`` and ``f_after``, or numbered ones."""
    taken = names_in(site.module)
    if receiver:  # a subclass or a base class elsewhere must not have it either
        taken |= {word for text in site.sources.values() for word in _WORD.findall(text)}
    own = function.name.value.strip("_")
    found = {}
    places = [part.placed for part in parts]
    plain = len(places) == 1 or places == ["before", "after"]
    for number, part in enumerate(parts, 1):
        name = fresh(f"{own}_{part.placed if plain else f'part_{number}'}", taken)
        taken.add(name)
        found[part.name] = name
        part.name = name
    return found


def receiver_of(site: Site, function: cst.FunctionDef) -> str:
    """``self`` where the function is a method of a class at module level; else an empty string."""
    if site.parent(function) is site.module:
        return ""
    owner = site.class_of(function)
    if owner is None or site.function_of(function) is not None:
        raise CannotSplit("the function stands in another one")
    if site.parent(owner.body) is not owner or function not in owner.body.body:
        raise CannotSplit("the method does not stand directly in its class")
    if site.parent(owner) is not site.module:
        raise CannotSplit("the class does not stand at module level")
    parameters = (*function.params.posonly_params, *function.params.params)
    if not parameters or len(function.decorators) > 1:
        raise CannotSplit("the method has other decorators, or no `self`")
    receiver = parameters[0].name.value
    inside = activity(function.body)
    if receiver in inside.writes | inside.deletes:
        raise CannotSplit(f"the method binds `{receiver}` again")
    return receiver


def check_scope(function: cst.FunctionDef, scope: Scope) -> None:
    """Raise `CannotSplit` where the parts would share more than values."""
    what = activity(function.body)
    ways = exits(function.body)
    if function.asynchronous is not None or ways.yields or ways.awaits:
        raise CannotSplit("generators and coroutines cannot be cut")
    if scope.cells or scope.nonlocals or what.deletes - _handled(function):
        raise CannotSplit("inner functions or `del` tie the parts together")
    if what.frame_access or (what.dynamic and not what.zero_super):
        raise CannotSplit("the function looks at its own frame")


def _handled(function: cst.FunctionDef) -> frozenset[str]:
    """Names of ``except ... as name``, which end with their handler."""
    found = set()
    for node in walk(function.body):
        if isinstance(node, cst.ExceptHandler) and node.name is not None:
            name = node.name.name
            if isinstance(name, cst.Name):
                found.add(name.value)
        if isinstance(node, cst.Del):
            return frozenset()
    return frozenset(found)


class _Cutter:
    def __init__(
        self,
        site: Site,
        function: cst.FunctionDef,
        scope: Scope,
        receiver: str,
        stays: Callable[[cst.CSTNode], bool],
    ) -> None:
        self.site = site
        self.function = function
        self.scope = scope
        self.receiver = receiver
        self.stays = stays
        self.order = _order(function, scope)
        self.parts: list[Part] = []
        self.caught = 0

    def block(self, statements: Body, *, outermost: bool = False, looped: bool = False) -> Body:
        """The statements of a block with its runs replaced by calls of parts."""
        opened = [statement for statement in statements if self.must_open(statement)]
        last = statements.index(opened[-1]) if opened else -1
        result: list[cst.BaseStatement] = []
        run: list[cst.BaseStatement] = []
        for number, statement in enumerate(statements):
            is_tail = outermost and number > last
            if statement in opened or (not is_tail and self.leads_out(statement)):
                placed = "before" if outermost else "inside"
                result += self.run(run, placed=placed, looped=looped)
                run = []
                result.append(self.open(statement, looped))
            else:
                run.append(statement)
        tail = outermost or (bool(run) and always_returns(run))
        placed = "after" if outermost else "inside"
        result += self.run(run, placed=placed, tail=tail, looped=looped)
        return result

    def must_open(self, statement: cst.BaseStatement) -> bool:
        return any(self.stays(node) or isinstance(node, cst.Global) for node in walk(statement))

    def leads_out(self, statement: cst.BaseStatement) -> bool:
        """Whether it may jump: out of a part, a jump would end the part alone."""
        return bool(exits(statement).jumps) and not always_returns([statement])

    def open(self, statement: cst.BaseStatement, looped: bool) -> cst.BaseStatement:
        """A statement that stays in Python, with its blocks cut."""
        if isinstance(statement, cst.SimpleStatementLine) or self.stays_whole(statement):
            return statement
        if isinstance(statement, cst.FunctionDef | cst.ClassDef | cst.Match):
            return statement
        looped = looped or isinstance(statement, cst.For | cst.While)
        blocks: dict[cst.CSTNode, cst.CSTNode] = {}
        self.blocks_of(statement, looped, blocks)

        class Put(cst.CSTTransformer):
            def on_visit(self, node: cst.CSTNode) -> bool:
                return node not in blocks

            def on_leave(  # type: ignore[override]
                self, original_node: cst.CSTNode, updated_node: cst.CSTNode
            ) -> cst.CSTNode:
                return blocks.get(original_node, updated_node)

        new = statement.visit(Put())
        assert isinstance(new, cst.BaseStatement)
        return new

    def stays_whole(self, statement: cst.BaseStatement) -> bool:
        """``with open(path) as file:``: a block around what it opens has nothing to compile."""
        if not isinstance(statement, cst.With):
            return False
        opening = [node for item in statement.items for node in walk(item)]
        if not any(map(self.stays, [statement, *opening])):
            return False
        names = {
            node.value
            for item in statement.items
            if item.asname is not None
            for node in walk(item.asname)
            if isinstance(node, cst.Name)
        }
        return bool(names & activity(statement.body).reads)

    def blocks_of(
        self, node: cst.CSTNode, looped: bool, found: dict[cst.CSTNode, cst.CSTNode]
    ) -> None:
        for child in children(node):
            if isinstance(child, cst.IndentedBlock):
                caught = isinstance(node, cst.Try | cst.TryStar) and bool(node.handlers)
                self.caught += caught
                new = self.block(list(child.body), looped=looped)
                self.caught -= caught
                found[child] = child.with_changes(body=tuple(new))
            elif isinstance(child, cst.If | cst.Else | cst.Finally | cst.ExceptHandler):
                self.blocks_of(child, looped, found)

    def run(self, run: Body, *, placed: str, looped: bool, tail: bool = False) -> Body:
        """A run of statements as a call of a part; as it is where there is nothing to compile."""
        if all(map(self.trivial, run)) or (self.caught and not all(map(self.is_tame, run))):
            return run
        start, end = 0, len(run)
        while not tail and self.trivial(run[end - 1]):
            end -= 1
        while placed == "inside" and not tail and self.trivial(run[start]):
            start += 1
        inner = list(run[start:end])
        if (activity(inner).binds | activity(inner).deletes) & self.scope.declared_globals:
            raise CannotSplit("a part would bind a global")
        takes, gives = self.needed(inner), () if tail else self.given(inner)
        if looped:
            self.check_looped(inner, takes)
        part = Part(inner, takes, gives, tail, placed, f"_gbfix_part_{len(self.parts)}_")
        self.parts.append(part)
        return [*run[:start], self.call(part), *run[end:]]

    def call(self, part: Part) -> cst.BaseStatement:
        arguments = [name for name in part.takes if name != self.receiver]
        func = f"{self.receiver}.{part.name}" if self.receiver else part.name
        value = call(func, *arguments)
        if part.tail:
            return returns(value)
        if not part.gives:
            return cst.SimpleStatementLine([cst.Expr(value)])
        return assign(part.gives if len(part.gives) > 1 else part.gives[0], value)

    def trivial(self, statement: cst.BaseStatement) -> bool:
        """Whether it only names, returns, passes on or counts: nothing to compile."""
        return all(self.plain(node) for node in walk(statement))

    def plain(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.AugAssign):
            return self.is_number(node.target) or self.counts(node)
        if isinstance(node, cst.For | cst.While | cst.With | cst.Try | cst.BaseComp):
            return False
        if isinstance(node, cst.Call):
            func = node.func
            last = func.attr if isinstance(func, cst.Attribute) else func
            if isinstance(last, cst.Name) and last.value in _PLAIN:
                return True
            name = resolve(self.site.module, func) or ""
            return name.removeprefix("builtins.") in _EXCEPTIONS
        return not isinstance(node, _COMPUTES) or self.is_number(node) or self.is_count(node)

    def counts(self, node: cst.AugAssign) -> bool:
        """``self.calls += 1``, ``calls["f"] += 1``, of what is not known to be a tensor."""
        target = node.target
        if not isinstance(target, cst.Attribute | cst.Subscript):
            return False
        values = (target, target.value)
        return isinstance(node.value, cst.Integer) and not any(map(self.is_tensor, values))

    def is_count(self, node: cst.CSTNode) -> bool:
        parent = self.site.parent(node)
        return isinstance(parent, cst.AugAssign) and parent.target is node and self.counts(parent)

    def is_tame(self, statement: cst.BaseStatement) -> bool:
        """Whether no handler can tell that it was compiled: only torch itself may raise in it.

        An exception that Python raises in a compiled part arrives as one of Dynamo's.
        """
        return not any(
            isinstance(node, cst.Subscript | cst.Raise | cst.Assert | cst.BaseCompoundStatement)
            or (isinstance(node, cst.Call) and not self.is_torch(node.func))
            for node in walk(statement)
        )

    def is_torch(self, func: cst.BaseExpression) -> bool:
        name = resolve(self.site.module, func)
        if name is not None:
            return name.startswith("torch.")
        fact = self.site.fact(func.value) if isinstance(func, cst.Attribute) else None
        if fact is not None and fact.is_tensor:
            return True
        module = self.site.fact(func)
        return module is not None and module.kind == "module" and module.type.startswith("torch.")

    def is_number(self, node: cst.BaseExpression) -> bool:
        fact = self.site.fact(node)
        return fact is not None and fact.is_python_scalar

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        fact = self.site.fact(node)
        return fact is not None and fact.is_tensor

    def needed(self, run: Body) -> tuple[str, ...]:
        """The local names whose values the run needs."""
        what = activity(run)
        mentioned = what.reads | what.bound | what.mutates
        if what.zero_super:
            mentioned |= {self.receiver}
        live = live_before(self.function, run[0]) & self.scope.locals & mentioned
        if self.receiver:
            live |= {self.receiver}
        # Live for a handler's sake alone: the run binds it, and never reads it.
        live -= (
            definitely_bound_after(self.function, run[-1])
            - what.reads
            - what.mutates
            - (definitely_bound_before(self.function, run[0]))
        )
        unbound = live - definitely_bound_before(self.function, run[0])
        # Passing an unbound name raises what reading it would have raised.
        unbound -= _read_at_once(run[0])
        if unbound:
            raise CannotSplit(f"`{sorted(unbound)[0]}` may be unbound there")
        self.check_generators(run, live)
        self.check_classes(run, live)
        return tuple(name for name in self.order if name in live)

    def given(self, run: Body) -> tuple[str, ...]:
        """What the run binds and somebody behind it reads."""
        if always_returns(run):
            return ()
        bound = activity(run).binds & self.scope.locals
        used = bound & live_after(self.function, run[-1])
        unbound = used - definitely_bound_after(self.function, run[-1])
        if unbound:
            raise CannotSplit(f"`{sorted(unbound)[0]}` may be unbound there")
        # An error in the last of them leaves its target as it was, in the part as in the whole.
        last = run[-1]
        simple = isinstance(last, cst.SimpleStatementLine) and len(last.body) == 1
        for number, statement in enumerate(run):
            bound_by_now = activity(
                run[: number + (0 if simple and statement is last else 1)]
            ).binds
            lost = bound_by_now & bound & live_on_error(self.function, statement)
            if lost and self.may_be_caught(statement):
                raise CannotSplit(f"a handler may read `{sorted(lost)[0]}` after an error")
        return tuple(name for name in self.order if name in used)

    def may_be_caught(self, statement: cst.CSTNode) -> bool:
        """Whether the function may go on after an error in the statement; locks let it through."""
        for part in self.site.ancestors(statement):
            if part is self.function:
                return False
            if isinstance(part, cst.Try | cst.TryStar):
                return True
            if isinstance(part, cst.With) and suppresses_errors(part):
                held = [self.site.fact(item.item) for item in part.items]
                if not all(fact is not None and fact.type in _LOCKS for fact in held):
                    return True
        return True

    def check_generators(self, run: Body, takes: Collection[str]) -> None:
        """A compiled part draws other numbers from a `random.Random` that it can reach."""
        facts = self.site.locals_before(run[0])
        reached = [name for name in takes if name in facts and facts[name].type in _GENERATORS]
        for node in walk(cst.IndentedBlock(run)) if not reached else ():
            fact = self.site.fact(node) if isinstance(node, cst.Name | cst.Attribute) else None
            if fact is not None and fact.type in _GENERATORS:
                reached.append(code(node))
        if reached:
            raise CannotSplit(f"a part would draw numbers from `{reached[0]}`")

    def check_classes(self, run: Body, takes: Collection[str]) -> None:
        """A compiled part is compiled anew for every class that a call makes for itself."""
        made = {part.name.value for part in walk(self.function) if isinstance(part, cst.ClassDef)}
        facts = self.site.locals_before(run[0])
        for name in takes:
            if name in made or (name in facts and "<locals>" in facts[name].type):
                raise CannotSplit(f"each call would compile for the class of another `{name}`")

    def check_looped(self, run: Body, takes: Collection[str]) -> None:
        """In a loop, a part is compiled anew for every other object that it is handed."""
        facts = self.site.locals_before(run[0])
        for name in takes:
            fact = facts.get(name)
            if name != self.receiver and fact is not None and fact.kind not in _PASSES_IN_LOOPS:
                raise CannotSplit(f"each round would compile for another `{name}`")


_PASSES_IN_LOOPS = words("tensor int float bool none mixed")
_GENERATORS = words("random.Random random.SystemRandom")


def _read_at_once(statement: cst.BaseStatement) -> frozenset[str]:
    """Names that the statement reads whatever happens."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return frozenset()
    if any(isinstance(node, _MAYBE) for node in walk(statement)):
        return frozenset()
    return activity(statement).reads


_MAYBE = cst.IfExp | cst.BooleanOperation | cst.Lambda | cst.BaseComp | cst.Comparison


def _order(function: cst.FunctionDef, scope: Scope) -> tuple[str, ...]:
    """Local names in the order in which a reader meets them: parameters, then as they are bound."""
    names = dict.fromkeys(parameters_of(function.params))
    for node in walk(function.body):
        if isinstance(node, cst.Name) and node.value in scope.locals:
            names.setdefault(node.value)
    return tuple(names)


#: Has Dynamo pass over a function's own frame, but not over what it calls.
_PASS_OVER = cst.Decorator(cst.parse_expression("torch.compiler.disable(recursive=False)"))


def part_function(part: Part, decorator: cst.Decorator | None, *, method: bool) -> cst.FunctionDef:
    """A part as a function of its own, decorated as the whole was."""
    first, *rest = part.statements
    lines = list(first.leading_lines)  # type: ignore[attr-defined]
    while lines and lines[0].comment is None:
        lines.pop(0)
    body: list[cst.BaseStatement] = [first.with_changes(leading_lines=lines), *rest]
    if part.gives:
        value: cst.BaseExpression = cst.Name(part.gives[0])
        if len(part.gives) > 1:
            elements = [cst.Element(cst.Name(name)) for name in part.gives]
            value = cst.Tuple(elements, lpar=(), rpar=())
        body.append(returns(value))
    blank = [cst.EmptyLine(indent=False)] * (1 if method else 2)
    return cst.FunctionDef(
        name=cst.Name(part.name),
        params=cst.Parameters([cst.Param(cst.Name(name)) for name in part.takes]),
        body=cst.IndentedBlock(tuple(body)),
        decorators=[decorator.deep_clone().with_changes(leading_lines=())] if decorator else [],
        leading_lines=blank,
    )


def split(
    site: Site, function: cst.FunctionDef, parts: Cut, decorator: cst.Decorator | None
) -> Edit:
    """The edit that puts the cut function and its parts where the function stood."""
    body = function.body
    assert isinstance(body, cst.IndentedBlock)
    others = [other for other in function.decorators if other is not decorator]
    if decorator is None:
        others.append(_PASS_OVER)
    own = function.with_changes(decorators=others, body=body.with_changes(body=tuple(parts.body)))
    method = site.parent(function) is not site.module
    edit = site.edit()
    edit.replace(
        function, own, *(part_function(part, decorator, method=method) for part in parts.parts)
    )
    return edit


def with_decorators(site: Site, function: cst.FunctionDef, rewrite: Rewrite) -> Rewrite:
    """The rewrite with the function's decorators among what it means to touch."""
    spans = [site.span(decorator) for decorator in function.decorators]
    touched = {**rewrite.touched, site.path: (*rewrite.touched[site.path], *spans)}
    return dataclasses.replace(rewrite, touched=touched)
