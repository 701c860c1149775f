"""Statements that do nothing but what the user sees, and what they need from their function.

A *block* is a run of neighbouring statements, the break among them, that can become the body of an
operator: it binds nothing that is read later, leaves by no jump, and reads tensors, numbers and
strings (or objects that an operator can find by itself).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import Activity, activity, parameters_of, params_of
from gbfix.analysis.clocks import asks_clock
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import enclosing_functions, function_scope
from gbfix.analysis.tree import children, code, dotted, walk
from gbfix.codemod import Site, Statement
from gbfix.rewriting.project import mentions
from gbfix.schema import Fact

from ..wrap.capture import (
    Parameter,
    is_plain_tensor,
    local_names,
    own_parameters,
    schema_type,
)
from .libraries import ADDING
from .moving import Replace, is_host_read, may_change, texts_of_tensors


class NoBlock(Exception):
    """Why statements cannot move, in a clause that can follow "because"."""


@dataclasses.dataclass
class Taken:
    """A block as the body of an operator."""

    statements: list[cst.BaseStatement]
    parameters: list[Parameter]
    #: The function's names of objects to find by their identity, by the operator's names.
    owners: dict[str, str]
    owner_types: dict[str, str]
    #: Recorded types by the text that names them in the operator.
    types: dict[str, str]
    #: Names of parameters that hold tensors, with the facts.
    tensors: dict[str, Fact]
    #: Statements that moved along, of which the function has no more need.
    absorbed: list[cst.BaseStatement]
    #: Names of dictionaries that are handed over as names and values.
    tables: tuple[str, ...] = ()


def uses_of(site: Site, name: str) -> list[cst.Name]:
    """Where the function around the site mentions a name."""
    return list(site.places_of(name, site.function)) if site.function is not None else []


def _kept_parameters(site: Site, node: cst.CSTNode) -> frozenset[str]:
    """Parameters of functions around the innermost one that nothing binds again: a hook's owner."""
    functions = enclosing_functions(site.module, node)
    if not functions:
        return frozenset()
    bound = function_scope(functions[0]).locals
    found = frozenset[str]()
    for function in functions[1:]:
        does = activity(function.body)
        rebound = {name for part in walk(function.body) for name in _names_bound(part)}
        given = frozenset(parameters_of(function.params)) - does.writes - does.deletes - rebound
        found |= given - bound
        bound |= function_scope(function).locals
    return found


def _names_bound(node: cst.CSTNode) -> frozenset[str]:
    """The names of outer functions that a function inside binds."""
    return frozenset(
        item.name.value for item in (node.names if isinstance(node, cst.Nonlocal) else ())
    )


#: Kinds of what is None, or None in some calls.
_AT_TIMES = frozenset({"none", "mixed"})
#: Around what is computed in some runs alone, or several times.
_PERHAPS = (
    cst.If | cst.For | cst.While | cst.Try | cst.BooleanOperation | cst.IfExp | cst.Lambda
) | (cst.ListComp | cst.SetComp | cst.DictComp | cst.GeneratorExp)


class Taker:
    """Takes a block out of its function: what it reads becomes parameters."""

    def __init__(
        self,
        site: Site,
        run: Sequence[cst.BaseStatement],
        *,
        at: cst.BaseStatement | None = None,
        members: Sequence[cst.CSTNode] = (),
        harmless: Sequence[cst.CSTNode] = (),
        gives: str = "",
    ) -> None:
        """``at`` is the statement in whose place a block stands that is not in the text as it is,
        ``members`` the nodes that it is made of; ``harmless`` statements change no tensor.
        ``gives`` is a name that the block binds, and that the operator returns.
        """
        self.harmless = harmless
        self.gives = gives
        assert site.function is not None
        self.site = site
        self.function = site.function
        self.run = list(run)
        self.first = at or run[0]
        self.last = at or run[-1]
        self.members = [*(members or run)]
        self.absorbed: list[cst.BaseStatement] = []
        #: Statements that came along, with those that they repeat.
        self.copies: dict[cst.CSTNode, cst.CSTNode] = {}
        self.locals = local_names(site, self.first)
        self.own = own_parameters(site, self.first) | _kept_parameters(site, self.first)
        self.before = dict(site.locals_before(self.first)) or dict(
            site.locals_before(site.statement)
        )
        self.parameters: list[Parameter] = []
        self.by_text: dict[str, Parameter] = {}
        self.replaced: dict[cst.CSTNode, cst.CSTNode] = {}
        self.owners: dict[str, str] = {}
        self.owner_types: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.imports: list[cst.BaseStatement] = []
        self.bound: frozenset[str] = frozenset()
        #: Attributes that the block sets or adds to: it reads them there, and not beforehand.
        self.stored: set[str] = set()
        self.taken = {*activity(self.function.body).reads, *self.locals, "owner"}
        #: How the operator makes dictionaries that it is given, by their names.
        self.tables: dict[str, str] = {}
        #: Attributes that are None in some calls: they are read where their object is found.
        self.at_times: set[str] = set()
        #: Names whose texts show tensors: what makes them has to come along.
        self.texts = texts_of_tensors(site)

    def take(self, *, repeats: bool = False) -> Taken:
        """``repeats``: what the block computes is computed where it stood, too."""
        if repeats:
            self.copies |= dict(zip(self.run, self.run, strict=True))
        self.absorb()
        what = activity(self.run)
        self.check(what)
        self.bound = what.writes
        early = self.read_early()
        for name in sorted(early):
            self.rebound(name)
        self.stored = {
            code(part.target)
            for statement in self.run
            for part in walk(statement)
            if isinstance(part, cst.AssignTarget | cst.AugAssign | cst.AnnAssign)
            and isinstance(part.target, cst.Attribute)
        }
        calls = [part for line in self.run for part in walk(line) if isinstance(part, cst.Call)]
        self.stored |= {
            code(call.func.value)
            for call in calls
            if isinstance(call.func, cst.Attribute)
            and isinstance(call.func.value, cst.Attribute)
            and call.func.attr.value in ADDING
        }
        self.at_times = {
            code(part)
            for line in self.run
            for part in walk(line)
            if isinstance(part, cst.Attribute) and self.is_none_at_times(part)
        }
        keeps = self.stored or any(
            isinstance(call.func, cst.Attribute) and call.func.attr.value in ADDING
            for call in calls
        )
        if keeps and asks_clock("".join(map(code, self.run))):
            raise NoBlock("it keeps a time: when it asks the clock is what counts")
        for statement in self.run:
            self.visit(statement, frozenset())
        for name in early:
            self.bound -= {name}
        body = [self.moved(statement) for statement in self.run]
        tensors = {
            item.name: item.fact
            for item in self.parameters
            if item.annotation.startswith(("torch.Tensor", "list[torch.Tensor]"))
        }
        return Taken(
            [*self.imports, *body],
            self.parameters,
            self.owners,
            self.owner_types,
            self.types,
            tensors,
            self.absorbed,
            tuple(self.tables),
        )

    def moved(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        new = statement.visit(Replace(self.replaced))
        assert isinstance(new, cst.BaseStatement)
        return new

    def check(self, what: Activity) -> None:
        """Whether the statements can leave their function."""
        if exits(self.run).any:
            raise NoBlock("it leaves the function, or raises")
        if what.dynamic or what.frame_access or what.nonlocals or what.closure_writes:
            raise NoBlock("it looks at the frame in which it runs")
        # `live_after` counts names that are declared global; the operator declares them, too.
        own = activity([line for line in self.run if line not in self.copies])
        later = live_after(self.function, self.last) & own.bound - {self.gives}
        if later:
            raise NoBlock(f"it binds `{min(later)}`, which is read later")
        if what.deletes & self.locals:
            raise NoBlock("it unbinds a name")

    def read_early(self) -> frozenset[str]:
        """Names that the block reads before it binds them."""
        written: set[str] = set()
        early: set[str] = set()
        for statement in self.run:
            what = activity(statement)
            early |= what.reads & what.writes - written
            written |= what.writes
        simple = {
            name
            for statement in self.run
            for name in activity(statement).writes
            if name not in self.before
        }
        return frozenset(early - simple) & self.locals

    def rebound(self, name: str) -> None:
        fact = self.before.get(name)
        found = schema_type(fact)
        if found is None or fact is None:
            raise NoBlock(f"`{name}` is bound anew from what an operator does not take")
        self.add(cst.Name(name), fact, found, name)

    # -- statements that come along --------------------------------------------------------------

    def absorb(self) -> None:
        """Take along what defines names that only this block reads, and that cannot be passed."""
        for _ in range(12):
            if not any(self.absorb_one(name) for name in sorted(activity(self.run).reads)):
                return

    def absorb_one(self, name: str) -> bool:
        if name not in self.locals or name in activity(self.run).writes or name in self.own:
            return False
        definition = self.definition(name)
        if definition is None:
            return False
        line, value = definition
        fact = self.before.get(name) or self.site.fact(value)
        is_read = is_host_read(value) or name in self.texts
        if not is_read and (fact is None or schema_type(fact) is not None):
            return False
        inside = [use for use in uses_of(self.site, name) if self.is_inside(use)]
        outside = [
            use
            for use in uses_of(self.site, name)
            if use not in inside and not self.is_in(use, line)
        ]
        between = self.between(line)
        if between is None:
            return False
        between = [item for item in between if not any(item is one for one in self.harmless)]
        reads = activity(value).reads
        what = activity(*between) if between else None
        if what is not None and (reads & what.bound or what.mutates or what.mutates_unknown):
            return False
        if any(may_change(part, reads) for item in between for part in walk(item)):
            return False
        if what is not None and not is_read and what.calls:
            return False
        if not inside or (outside and not is_read):
            return False
        if not outside:
            self.absorbed.append(line)
        self.members.append(line)
        self.run.insert(0, line.with_changes(leading_lines=()))
        self.copies[self.run[0]] = line
        return True

    def definition(self, name: str) -> tuple[cst.SimpleStatementLine, cst.BaseExpression] | None:
        """The one plain assignment of a local name."""
        found: list[tuple[cst.SimpleStatementLine, cst.BaseExpression]] = []
        for line in walk(self.function.body):
            if not isinstance(line, cst.SimpleStatementLine) or name not in activity(line).bound:
                continue
            match line.body:
                case [cst.Assign(targets=[cst.AssignTarget(cst.Name(target))], value=value)]:
                    if target != name:
                        return None
                    found.append((line, value))
                case _:
                    return None
        bound = activity(self.function.body).captures
        return found[0] if len(found) == 1 and name not in bound else None

    def is_in(self, node: cst.CSTNode, holder: cst.CSTNode) -> bool:
        return any(part is holder for part in (node, *self.site.ancestors(node)))

    def is_inside(self, node: cst.CSTNode) -> bool:
        return any(self.is_in(node, line) for line in self.members)

    def between(self, line: cst.BaseStatement) -> list[cst.CSTNode] | None:
        """The statements between a definition and the block; None where one may pass it by."""
        here: cst.CSTNode = self.first
        found: list[cst.CSTNode] = []
        for _ in range(8):
            block = list(self.site.block_of(here))
            index = next((n for n, item in enumerate(block) if item is here), None)
            if index is None:
                return None
            start = next((n for n, item in enumerate(block) if item is line), None)
            if start is not None:
                taken = {id(self.copies.get(item, item)) for item in self.run}
                inner = [item for item in block[start + 1 : index] if id(item) not in taken]
                return [*inner, *found] if start < index else None
            found = [*block[:index], *found]
            above = next(
                (item for item in self.site.ancestors(here) if isinstance(item, Statement)), None
            )
            if above is None or above is self.function:
                return None
            if isinstance(above, cst.For | cst.While):
                return None
            here = above
        return None

    # -- what it reads ---------------------------------------------------------------------------

    def visit(self, node: cst.CSTNode, hidden: frozenset[str]) -> None:
        if isinstance(node, cst.Lambda):
            names = {param.name.value for param in params_of(node.params)}
            self.visit(node.body, hidden | names)
        elif isinstance(node, cst.BaseComp):
            self.comprehension(node, hidden)
        elif isinstance(
            node, cst.NamedExpr | cst.Await | cst.Yield | cst.FunctionDef | cst.ClassDef
        ):
            raise NoBlock("it binds a name within an expression, or defines a function")
        elif isinstance(node, cst.Name | cst.Attribute | cst.Subscript | cst.Call):
            if not self.path(node, hidden):
                raise NoBlock(self.why(node))
        elif isinstance(node, cst.Arg):
            self.visit(node.value, hidden)
        elif isinstance(node, cst.AssignTarget | cst.AugAssign | cst.AnnAssign):
            self.binding(node, hidden)
        elif isinstance(node, cst.Import | cst.ImportFrom | cst.Global):
            return
        elif isinstance(node, cst.AsName | cst.ExceptHandler):
            for child in children(node):
                if not (isinstance(child, cst.AsName)):
                    self.visit(child, hidden)
        else:
            for child in children(node):
                self.visit(child, hidden)

    def comprehension(self, node: cst.BaseComp, hidden: frozenset[str]) -> None:
        clause: cst.CompFor | None = node.for_in
        inside = hidden
        while clause is not None:
            self.visit(clause.iter, inside)
            inside |= {part.value for part in walk(clause.target) if isinstance(part, cst.Name)}
            for test in clause.ifs:
                self.visit(test.test, inside)
            clause = clause.inner_for_in
        parts = (node.key, node.value) if isinstance(node, cst.DictComp) else (node.elt,)  # type: ignore[attr-defined]
        for part in parts:
            self.visit(part, inside)

    def binding(self, node: cst.CSTNode, hidden: frozenset[str]) -> None:
        target = node.target  # type: ignore[attr-defined]
        if isinstance(node, cst.AugAssign | cst.AnnAssign) and node.value is not None:
            self.visit(node.value, hidden)
        for part in walk(target):
            if isinstance(part, cst.Attribute | cst.Subscript):
                holder = part.value if isinstance(part, cst.Subscript) else part
                in_place = isinstance(node, cst.AugAssign) or isinstance(part, cst.Subscript)
                if in_place and self.is_own_tensor(holder):
                    raise NoBlock(f"it changes the tensor `{code(holder)}`")
                return self.store(part, hidden)
        return None

    def is_own_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether an attribute is a tensor, which other code of a graph may read: what an operator
        changes has to be handed to it, and declared.
        """
        fact = self.fact(node)
        if fact is not None:
            return fact.is_tensor
        if not isinstance(node, cst.Attribute):
            return False
        name = node.attr.value
        made = rf"\.{name}\s*=\s*(?:torch|nn)\.(?:\w+\.)*\w+\("
        return mentions(self.site, rf"""register_buffer\(\s*["']{name}["']|{made}""")

    def store(self, target: cst.Attribute | cst.Subscript, hidden: frozenset[str]) -> None:
        """``STATS["a"] = ``, ``self.last = ``: what is changed must be found by the operator."""
        root: cst.BaseExpression = target
        while isinstance(root, cst.Attribute | cst.Subscript):
            for element in root.slice if isinstance(root, cst.Subscript) else ():
                self.visit(element, hidden)
            root = root.value
        if not isinstance(root, cst.Name):
            raise NoBlock(f"`{code(target)}` is not plain to see")
        if root.value in self.bound | hidden or root.value not in self.locals:
            self.note_type(target.value)
            return
        fact = self.before.get(root.value)
        if fact is None or fact.is_tensor or fact.kind not in ("object", "module"):
            raise NoBlock(f"it changes `{root.value}`, which an operator does not take")
        self.owner(root, fact)

    def is_always_asked(self, node: cst.CSTNode) -> bool:
        """Whether the block computes the node whenever it runs, and once."""
        for above in self.site.ancestors(node):
            if any(above is line for line in self.run):
                return not isinstance(above, cst.If | cst.For | cst.While | cst.Try)
            if isinstance(above, _PERHAPS):
                return False
        return False

    def why(self, node: cst.CSTNode) -> str:
        fact = self.fact(node)
        kind = "of unknown type" if fact is None else f"a {fact.type or fact.kind}"
        return f"`{code(node)}` is {kind}, which an operator does not take"

    def path(self, node: cst.CSTNode, hidden: frozenset[str]) -> bool:
        """Pass the shortest prefix of a chain that can be passed; False if none can."""
        if isinstance(node, cst.Name):
            return self.name(node, hidden)
        if isinstance(node, cst.Attribute):
            if code(node) in self.stored and (self.receiver(node) or self.of_global(node)):
                return True
            if self.is_moving(node) and self.need(node, hidden):
                return True
            if code(node) in self.at_times and self.receiver(node):
                return True
            if isinstance(node.value, cst.Name | cst.Attribute | cst.Subscript | cst.Call):
                return self.path(node.value, hidden) or self.need(node, hidden)
            self.visit(node.value, hidden)
            return True
        if isinstance(node, cst.Subscript):
            if self.path(node.value, hidden):
                for element in node.slice:
                    self.visit(element, hidden)
                return True
            return self.need(node, hidden)
        if isinstance(node, cst.Call):
            return self.call(node, hidden)
        self.visit(node, hidden)
        return True

    def call(self, node: cst.Call, hidden: frozenset[str]) -> bool:
        func = node.func
        if isinstance(func, cst.Attribute):
            before = list(self.parameters), dict(self.replaced), dict(self.by_text)
            # What adds to a container needs the container itself, not a copy of what it holds.
            done = func.attr.value in ADDING and self.receiver(func.value)
            try:
                done = done or self.path(func.value, hidden)
            except NoBlock:
                done = False
            if not done:
                self.parameters, self.replaced, self.by_text = before
                done = self.receiver(func.value)
            if not done:
                return False
        elif not self.path(func, hidden):
            return False
        before = list(self.parameters), dict(self.replaced), dict(self.by_text)
        try:
            for argument in node.args:
                self.visit(argument.value, hidden)
        except NoBlock:
            # The length of an object that an operator does not take is a number that it takes.
            if code(func) != "len" or "len" in self.locals or not self.is_always_asked(node):
                raise
            self.parameters, self.replaced, self.by_text = before
            return self.need(node, hidden)
        return True

    def receiver(self, node: cst.BaseExpression) -> bool:
        """Have the operator find the object whose method is called."""
        root = node
        while isinstance(root, cst.Attribute | cst.Subscript):
            root = root.value
        if not isinstance(root, cst.Name) or root.value not in self.locals:
            return False
        if root.value in self.bound:
            return False
        owner = self.before.get(root.value)
        if owner is None or owner.kind not in ("object", "module"):
            return False
        for part in walk(node):
            if isinstance(part, cst.Subscript) and dotted(part.value) is None:
                return False
        self.owner(root, owner)
        self.note_type(node)
        return True

    def of_global(self, node: cst.Attribute) -> bool:
        """Whether the operator finds the attribute by a global name, as one of a class."""
        return (
            isinstance(node.value, cst.Name)
            and node.value.value not in self.locals
            and node.value.value not in self.bound
        )

    def owner(self, root: cst.Name, fact: Fact) -> None:
        """Let the operator find an object of the project by its identity."""
        name = self.owners.get(root.value)
        if name is None:
            if root.value not in self.own:
                raise NoBlock(f"`{root.value}` is bound in the function")
            name = "owner" if not self.owners else fresh("owner", {*self.owners.values()})
            self.owners[root.value] = name
            self.owner_types[name] = fact.type
            self.types[name] = fact.type
        self.replaced[root] = cst.Name(name)

    def note_type(self, node: cst.BaseExpression) -> None:
        fact = self.fact(node)
        if fact is not None and fact.type:
            text = code(node)
            for mine, name in self.owners.items():
                if text.startswith(mine + "."):
                    text = name + text.removeprefix(mine)
            self.types[text] = fact.type

    def name(self, node: cst.Name, hidden: frozenset[str]) -> bool:
        if node.value in hidden | self.bound:
            return True
        if node.value in self.locals:
            fact = self.fact(node)
            if fact is not None and fact.kind in ("pymodule", "function", "class"):
                return self.imported(node.value)
            return self.need(node, hidden)
        fact = self.site.fact(node)
        if fact is not None and fact.type:
            self.types[node.value] = fact.type
        if self.changes(node.value) and fact is not None and schema_type(fact) is not None:
            return self.need(node, hidden)
        return True

    def changes(self, name: str) -> bool:
        """Whether functions of the file bind a global anew: its value belongs to this moment."""
        return any(
            isinstance(part, cst.Global) and any(item.name.value == name for item in part.names)
            for part in walk(self.site.module)
        )

    def is_moving(self, node: cst.Attribute) -> bool:
        """Whether a number of a class or module is set anew elsewhere: ``Section.depth += 1``."""
        if not isinstance(node.value, cst.Name) or node.value.value in self.locals:
            return False
        text = code(node)
        return any(
            isinstance(part, cst.AssignTarget | cst.AugAssign) and code(part.target) == text
            for part in walk(self.site.module)
        )

    def imported(self, name: str) -> bool:
        """Repeat an import of the function in the operator."""
        for line in walk(self.function.body):
            if isinstance(line, cst.SimpleStatementLine) and name in activity(line).writes:
                if len(line.body) == 1 and isinstance(line.body[0], cst.Import | cst.ImportFrom):
                    new = line.with_changes(leading_lines=())
                    if code(new) not in [code(item) for item in self.imports]:
                        self.imports.append(new)
                    return True
                return False
        return False

    def fact(self, node: cst.CSTNode) -> Fact | None:
        fact = self.site.fact(node) if node not in self.copies else None
        if fact is None and isinstance(node, cst.Name) and node.value in self.locals:
            fact = self.before.get(node.value)
        if fact is None and isinstance(node, cst.Attribute):
            fact = self.elsewhere(code(node))
        return fact

    def elsewhere(self, text: str) -> Fact | None:
        """What an attribute was in another place of the function, or is made as."""
        for part in walk(self.function.body):
            if isinstance(part, cst.Attribute) and code(part) == text:
                fact = self.site.fact(part)
                if fact is not None:
                    return fact
        holder = self.site.class_of(self.function)
        me, _, attribute = text.partition(".")
        for part in walk(holder) if holder is not None and me == "self" else ():
            match part:
                case cst.Assign(
                    targets=[cst.AssignTarget(cst.Attribute(attr=cst.Name(attr)))], value=value
                ) if attr == attribute:
                    if isinstance(value, cst.Integer):
                        return Fact("int", "int")
                    if isinstance(value, cst.Float):
                        return Fact("float", "float")
                    if isinstance(value, cst.SimpleString | cst.FormattedString):
                        return Fact("str", "str")
        return None

    def need(self, node: cst.BaseExpression, hidden: frozenset[str]) -> bool:
        if activity(node).reads & (hidden | self.bound):
            return False
        fact = self.fact(node)
        if fact is not None and fact.kind == "str" and activity(node).reads & self.texts:
            raise NoBlock(f"`{code(node)}` is a text of tensors, which no graph hands over")
        outside = isinstance(node, cst.Attribute) or (
            isinstance(node, cst.Name) and (node.value in self.own or node.value not in self.locals)
        )
        found = schema_type(fact, may_be_symbolic=not outside)
        if found is None and fact is not None and self.table(node, fact):
            return True
        if found is None and fact is not None and self.is_asked(node, fact):
            # The truth of an object that an operator does not take.
            found, fact = ("torch.types.Number", ""), Fact("bool", "bool")
            argument: cst.BaseExpression = cst.Call(cst.Name("bool"), [cst.Arg(node.deep_clone())])
        elif fact is not None and self.is_exception(node, fact):
            found, fact = ("str", ""), Fact("str", "str")
            argument = cst.Call(cst.Name("str"), [cst.Arg(node.deep_clone())])
        else:
            argument = node.deep_clone()
            found = found or self.declared_none(node, fact)
        if found is None or fact is None:
            return False
        text = code(node)
        known = self.by_text.get(text)
        if known is None:
            base = node.value if isinstance(node, cst.Name) else ""
            if not base:
                last = node
                while isinstance(last, cst.Subscript | cst.Call):
                    last = last.func if isinstance(last, cst.Call) else last.value
                base = last.attr.value if isinstance(last, cst.Attribute) else code(last)
                base = "length" if base == "len" else base
                base = fresh(base if base.isidentifier() else "value", self.taken)
                self.taken.add(base)
            if self.is_loose_text(node, fact):
                argument = cst.Call(cst.Name("str"), [cst.Arg(argument)])
            known = self.add(argument, fact, found, base, text)
        new = known.name
        if known.wrapper:
            new = f"{known.wrapper}({known.name})"
        if not (isinstance(node, cst.Name) and node.value == new):
            self.replaced[node] = cst.parse_expression(new)
        return True

    def table(self, node: cst.BaseExpression, fact: Fact) -> bool:
        """Pass a dictionary of tensors as its names and its values; False if it is none.

        Dynamo compiles anew for other names.
        """
        names = fact.keys or ()
        if not isinstance(node, cst.Name) or fact.kind != "dict" or fact.type != "dict":
            return False
        if not names or any("," in name or not name for name in names) or not fact.items:
            return False
        if not all(item.is_tensor and is_plain_tensor(item) for item in fact.items):
            return False
        uses = [use for use in uses_of(self.site, node.value) if self.is_inside(use)]
        if not all(map(self.is_read_by_entry, uses)):
            return False
        text = node.value
        if text not in self.tables:
            keys, values = fresh(f"{text}_names", self.taken), text
            self.taken.add(keys)
            joined = cst.parse_expression(f'",".join({text})')
            self.add(joined, Fact("str", "str"), ("str", ""), keys)
            held = Fact("list", "list", items=fact.items)
            given = cst.parse_expression(f"list({text}.values())")
            self.add(given, held, ("list[torch.Tensor]", ""), values)
            self.tables[text] = f'dict(zip(filter(None, {keys}.split(",")), {values}, strict=True))'
        self.replaced[node] = cst.parse_expression(self.tables[text])
        return True

    def is_read_by_entry(self, node: cst.Name) -> bool:
        """Whether a dictionary is asked for what it holds, and neither handed on nor changed."""
        match self.site.parent(node):
            case cst.Attribute(attr=cst.Name("items" | "values" | "keys" | "get")):
                return True
            case cst.Subscript(value=value) as entry:
                targets = cst.AssignTarget | cst.AugAssign | cst.Del
                return value is node and not isinstance(self.site.parent(entry), targets)
        return False

    def is_none_at_times(self, node: cst.Attribute) -> bool:
        """Whether an attribute has no type that an operator takes, as it is None in some calls."""
        fact = self.fact(node)
        if fact is None or fact.kind not in _AT_TIMES:
            return False
        return self.declared_none(node, fact) is None

    def declared_none(self, node: cst.BaseExpression, fact: Fact | None) -> tuple[str, str] | None:
        """``config.sep_token_id``, which is None: it passes as what its class says it may be."""
        if fact is None or fact.kind != "none" or not isinstance(node, cst.Attribute):
            return None
        kinds = r"(int|float|bool|str)"
        declared = re.compile(
            rf"^\s+(?:self\.)?{node.attr.value}\s*:\s*(?:(?:typing\.)?Optional\[{kinds}\]"
            rf"|{kinds} \| None|None \| {kinds})",
            re.MULTILINE,
        )
        texts = {self.site.source, *self.site.sources.values()}
        said = {next(filter(None, it.groups())) for text in texts for it in declared.finditer(text)}
        if said == {"str"}:
            return ("str | None", "")
        return ("torch.types.Number | None", "") if said and "str" not in said else None

    def is_asked(self, node: cst.BaseExpression, fact: Fact) -> bool:
        """Whether a name is only asked for its truth, and is no tensor or number."""
        if not isinstance(node, cst.Name) or fact.kind not in ("none", "class", "object", "bool"):
            return False
        if fact.kind == "bool" and node.value not in self.own:
            return False
        uses = [use for use in uses_of(self.site, node.value) if self.is_inside(use)]
        return all(self.is_test(use) for use in uses)

    def is_test(self, node: cst.CSTNode) -> bool:
        parent = self.site.parent(node)
        if isinstance(parent, cst.IfExp | cst.If):
            return parent.test is node
        if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
            return True
        return isinstance(parent, cst.BooleanOperation) and self.is_test(parent)

    def is_exception(self, node: cst.BaseExpression, fact: Fact) -> bool:
        """Whether the name of a caught exception is only shown: its text can be passed."""
        if fact.kind != "object" or not isinstance(node, cst.Name):
            return False
        caught = any(
            isinstance(part, cst.ExceptHandler)
            and part.name is not None
            and code(part.name.name) == node.value
            for part in self.site.ancestors(node)
        )
        uses = [use for use in uses_of(self.site, node.value) if self.is_inside(use)]
        return caught and all(self.is_shown(use) for use in uses)

    def is_loose_text(self, node: cst.BaseExpression, fact: Fact) -> bool:
        """Whether a string is only shown, and another caller may give anything for it."""
        if fact.kind != "str" or not isinstance(node, cst.Name) or node.value not in self.own:
            return False
        for param in params_of(self.function.params):
            if param.name.value == node.value and param.annotation is not None:
                return False
        uses = [use for use in uses_of(self.site, node.value) if self.is_inside(use)]
        return all(self.is_shown(use) for use in uses)

    def is_shown(self, node: cst.Name) -> bool:
        match self.site.parent(node):
            case cst.FormattedStringExpression(format_spec=None, conversion=None, equal=None):
                return True
            case cst.Arg(keyword=None, star="") as argument:
                call = self.site.parent(argument)
                return isinstance(call, cst.Call) and code(call.func) == "print"
        return False

    def add(
        self,
        argument: cst.BaseExpression,
        fact: Fact,
        found: tuple[str, str],
        name: str,
        text: str = "",
    ) -> Parameter:
        annotation, wrapper = found
        if self.may_be_none(argument) and not wrapper and "Tensor]" not in annotation:
            annotation += " | None"
        parameter = Parameter(name, annotation, argument, fact, wrapper)
        self.parameters.append(parameter)
        self.by_text[text or code(argument)] = parameter
        return parameter

    def may_be_none(self, node: cst.BaseExpression) -> bool:
        if not isinstance(node, cst.Name) or node.value not in self.own:
            return False
        for param in params_of(self.function.params):
            if param.name.value == node.value:
                note = code(param.annotation.annotation) if param.annotation else ""
                default = code(param.default) if param.default is not None else ""
                return default == "None" or "None" in note or "Optional" in note
        return False
