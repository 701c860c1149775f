"""Lowers a data-dependent ``if`` and what hangs on it to statements around ``torch.cond``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.exits import always_returns
from gbfix.analysis.liveness import definitely_bound_before, live_after
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.tree import code
from gbfix.codemod import Site
from gbfix.schema import Fact

from .blocks import (
    bind_item,
    both_append_to,
    else_statements,
    end_with,
    ends_round,
    is_operator,
    lambda_body,
    rebound,
    surely_binds,
    without_continue,
)
from .branches import (
    Branch,
    Sharing,
    branch_of,
    check_movable,
    check_structures,
    finish,
    leading,
    names_bound,
)
from .by_hand import instead
from .closures import captured_for_later
from .common_call import CommonCall, common_call
from .layout import first_of_block, spaced, statement_line, wrap_in_if
from .places import Place, places_of, with_names, with_texts
from .predicates import is_data_dependent, split
from .refusal import Condition, Refusal
from .sites import depth_of
from .uses import is_private
from .values import Values


@dataclasses.dataclass(frozen=True)
class Target:
    """Where a result of the branches goes: their name for it, and the place that gets it.

    What is ``written`` is changed in place, because others may hold the same tensor; what is
    ``appended`` goes to the end of a list.
    """

    name: str
    place: str
    written: bool = False
    appended: bool = False


@dataclasses.dataclass
class Lowered:
    """New statements for an ``if``; ``swallowed`` are the statements after it that moved in."""

    statements: list[cst.BaseStatement]
    swallowed: Sequence[cst.BaseStatement] = ()


class Lowering:
    """Lowers ``if`` statements of one function; collects what the notes must say."""

    def __init__(self, site: Site, values: Values, *, clone_unknown: bool) -> None:
        if site.function is None:
            raise Refusal("the condition stands outside any function")
        self.function = site.function
        self.site = site
        self.values = values
        self.clone_unknown = clone_unknown
        #: Whether cloning results of unseen calls would make a difference.
        self.unknown = False
        self.copied: set[str] = set()
        self.kept: set[str] = set()
        #: Whether a branch draws random numbers, and calls in branches whose body is not seen.
        self.random = False
        self.opaque: set[str] = set()
        #: Names bound by lowered branches, for which later changes in place matter.
        self.results: set[str] = set()
        #: The name for the truth of the topmost test, where its branch ends a loop.
        self.flag = ""
        self._carried: frozenset[str] = frozenset()
        #: Tensors that are changed in place after a cond, where a branch did it before.
        self.written: set[str] = set()
        #: Tensors that would be read too early where they share memory with one of those.
        self.apart: set[str] = set()
        self._taken = names_in(site.module)
        whole = activity(self.function.body)
        if whole.frame_access:
            raise Refusal("the function looks into its own frame (locals(), eval)")
        self._captured = captured_for_later(site, self.function)
        self._declared = whole.globals | whole.nonlocals

    # -- blocks ------------------------------------------------------------------------------

    def block(self, statements: Sequence[cst.BaseStatement], depth: int) -> list[cst.BaseStatement]:
        """The statements with every data-dependent ``if`` among them lowered."""
        done: list[cst.BaseStatement] = []
        for index, statement in enumerate(statements):
            if isinstance(statement, cst.If) and self._depends(statement):
                lowered = self.if_(statement, statements[index + 1 :], depth)
                done.extend(first_of_block(lowered.statements) if not done else lowered.statements)
                if lowered.swallowed:
                    return done
                continue
            done.append(self._inside(statement, depth))
        return done

    def _depends(self, node: cst.If) -> bool:
        """Whether a test of the chain depends on data."""
        return is_data_dependent(node.test, self.values) or (
            isinstance(node.orelse, cst.If) and self._depends(node.orelse)
        )

    def _inside(self, statement: cst.BaseStatement, depth: int) -> cst.BaseStatement:
        """A compound statement whose own blocks are lowered."""
        body = getattr(statement, "body", None)
        if isinstance(statement, cst.FunctionDef | cst.ClassDef) or not isinstance(
            body, cst.IndentedBlock
        ):
            return statement
        changes: dict[str, cst.CSTNode] = {}
        new = self.block(list(body.body), depth + 1)
        if new != list(body.body):
            changes["body"] = body.with_changes(body=new)
        orelse = getattr(statement, "orelse", None)
        if isinstance(orelse, cst.If):
            inner = self._inside(orelse, depth)
            if inner is not orelse:
                changes["orelse"] = inner
        elif isinstance(orelse, cst.Else) and isinstance(orelse.body, cst.IndentedBlock):
            new = self.block(list(orelse.body.body), depth + 1)
            if new != list(orelse.body.body):
                changes["orelse"] = orelse.with_changes(body=orelse.body.with_changes(body=new))
        return statement.with_changes(**changes) if changes else statement

    # -- one if ------------------------------------------------------------------------------

    def if_(
        self, node: cst.If, rest: Sequence[cst.BaseStatement], depth: int, *, top: bool = False
    ) -> Lowered:
        """The statements that take the place of an ``if``, given those that follow it."""
        if not is_data_dependent(node.test, self.values):
            return self._python_if(node, rest, depth, top=top)
        condition = split(node.test, self.values)
        other = [] if node.orelse is None else else_statements(node.orelse)
        true_returns = always_returns(node.body)
        false_returns = bool(other) and always_returns(other)
        returns = true_returns or false_returns
        branches = (branch_of(node.body), self._false_branch(node))
        flagged = bool(self.flag) and top
        top = top and not flagged
        swallowed = self._take_in(
            node, branches, rest, returns=(true_returns, false_returns), flagged=flagged
        )
        # Behind a Python condition, the branch that it decides about has to append by itself.
        alone = not (returns or swallowed or condition.python)
        appended = self._appended(branches) if alone else None
        for branch in branches:
            check_movable(branch.statements, returns=returns, values=self.values)
            self._check_effects(branch)
        places = [] if returns else self._places(node, branches, top=top)
        changed, written = self._changed(branches, places)
        if returns and (written or (changed and places)):
            raise Refusal(f"a branch changes `{written[0]}` in place, and returns")
        last = swallowed[-1] if swallowed else node
        results = [] if returns else self._results(node, last, branches, changed, places)
        targets = _targets(results, written, places, appended)
        if not returns and not targets:
            raise Refusal("the branches bind no name that is used afterwards")
        names = self._function_names(condition)
        originals = (list(branches[0].statements), list(branches[1].statements))
        for branch, copied in zip(branches, changed, strict=True):
            self._check_captured(branch)
            branch.statements = self.block(branch.statements, depth + 1)
            if not returns:
                end_with(branch, [target.name for target in targets])
            self._change_copies(branch, copied)
        one = [target.written or target.appended for target in targets] == [False]
        made = None
        if (returns or one) and not condition.python:
            made = self._common_call(branches)
        self.results |= set(results)
        self.written |= {target.place for target in targets if target.written}
        true, false = self._finished(branches, targets)
        flag: list[cst.BaseStatement] = []
        if flagged:
            flag = [self._flag_line(node, condition, true)]
            condition = dataclasses.replace(condition, tensor=self.flag)
        new = self._emit(
            node, condition, (true, false), names, targets, originals, places, depth, made
        )
        return Lowered([*flag, *new], swallowed)

    def _take_in(
        self,
        node: cst.If,
        branches: tuple[Branch, Branch],
        rest: Sequence[cst.BaseStatement],
        *,
        returns: tuple[bool, bool],
        flagged: bool,
    ) -> Sequence[cst.BaseStatement]:
        """Moves what follows the ``if`` into the branch that alone goes on with it.

        The statements that moved: none where both branches go on, or neither.
        """
        true, false = branches
        if flagged:
            without_continue(true)
            longer = false
        elif self._ends_loop_body(node) and ends_round(true) != ends_round(false):
            # The branch that does not end the iteration goes on with what follows in the loop.
            shorter, longer = (true, false) if ends_round(true) else (false, true)
            without_continue(shorter)
        elif returns[0] != returns[1]:
            # The branch that does not return goes on with what follows the whole statement.
            if not always_returns(rest):
                raise Refusal("one branch returns, and what follows the `if` does not always")
            longer = false if returns[0] else true
        else:
            return ()
        longer.statements = [*longer.statements, *rest]
        return rest

    def _common_call(self, branches: tuple[Branch, Branch]) -> CommonCall | None:
        """The call that both branches end with, taken out of them."""
        made = common_call(branches, self.values, self._variables())
        if made is not None:
            self._taken |= set(made.names)
            self.opaque = made.others(self.opaque)
        return made

    def _finished(
        self, branches: tuple[Branch, Branch], targets: Sequence[Target]
    ) -> tuple[Branch, Branch]:
        """The branches with clones of what they must not hand on; noted is what they copy."""
        true, false = (
            finish(branch, self.values, clone_unknown=self.clone_unknown) for branch in branches
        )
        check_structures((true, false))
        for branch in (true, false):
            self.unknown |= branch.unknown
            self.copied |= branch.copied
            self.kept |= branch.kept - {target.name for target in targets if target.written}
        return true, false

    def break_after(
        self, node: cst.If, rest: Sequence[cst.BaseStatement], flag: str, carries: Sequence[str]
    ) -> list[cst.BaseStatement]:
        """What an ``if`` that ends with ``break`` and the rest of its loop become, with a flag."""
        self.flag = flag
        self._carried = frozenset(carries)
        self._taken.add(flag)
        condition = split(node.test, self.values)
        body = branch_of(node.body)
        if not rest and len(body.statements) == 1:
            without_continue(body)
            return [self._flag_line(node, condition, body)]
        return self.if_(node, rest, depth_of(self.site, node) + 1, top=True).statements

    def _flag_line(self, node: cst.If, condition: Condition, branch: Branch) -> cst.BaseStatement:
        """``done = test``, with the comments of the ``if`` and of its ``break``."""
        line = cst.parse_statement(f"{self.flag} = {condition.tensor}")
        assert isinstance(line, cst.SimpleStatementLine)
        comments = [item for item in branch.above if item.comment is not None]
        branch.above = ()
        if branch.header is not None:
            comment = cst.TrailingWhitespace(cst.SimpleWhitespace("  "), branch.header)
            line = line.with_changes(trailing_whitespace=comment)
            branch.header = None
        return line.with_changes(leading_lines=[*leading(node), *comments])

    def _ends_loop_body(self, node: cst.If) -> bool:
        """Whether the statement stands in the block of a loop itself, in no block inside it."""
        block = self.site.parent(node)
        loop = None if block is None else self.site.parent(block)
        return isinstance(loop, cst.For | cst.While) and loop.body is block

    def _places(self, node: cst.If, branches: Sequence[Branch], *, top: bool) -> list[Place]:
        """Attributes and items that the branches set; in the branches, names stand for them."""
        places = places_of(
            self.site, [branch.statements for branch in branches], self.values, self._variables()
        )
        if places and (not top or split(node.test, self.values).python):
            raise Refusal(f"`{places[0].text}` is set in a nested branch")
        if places:
            for branch in branches:
                branch.statements = with_names(branch.statements, places)
            for place in places:
                if place.fact is not None:
                    self.values.named[place.name] = place.fact
        return places

    def _appended(self, branches: tuple[Branch, Branch]) -> Target | None:
        """The item that both branches append to a list at their end: they give it instead."""
        name = both_append_to(branches)
        fact = None if name is None else self.values.outside(name)
        if name is None or fact is None or fact.kind != "list":
            return None
        item = fresh("item", self._taken)
        self._taken.add(item)
        bind_item(branches, item, name)
        return Target(item, name, appended=True)

    def _function_names(self, condition: Condition) -> tuple[str, str]:
        """Free names for the two branch functions that tell when each is called."""
        test = condition.node or cst.parse_expression(condition.tensor)
        true = fresh(f"if_{telling_name(test)}", self._taken)
        false = fresh("otherwise", self._taken)
        self._taken |= {true, false}
        return true, false

    def _python_if(
        self, node: cst.If, rest: Sequence[cst.BaseStatement], depth: int, *, top: bool
    ) -> Lowered:
        """An ``if`` on a Python value whose ``elif`` depends on data: only that part changes."""
        if not isinstance(node.orelse, cst.If):
            raise Refusal(f"`{code(node.test)}` is not known to depend on data")
        inner = node if top else self._inside(node.with_changes(orelse=None), depth)
        assert isinstance(inner, cst.If)
        lowered = self.if_(node.orelse, rest, depth + 1, top=top)
        if lowered.swallowed and not always_returns(node.body):
            raise Refusal("one branch returns, and others go on")
        block = cst.IndentedBlock(first_of_block(lowered.statements))
        above = leading(node.orelse)
        orelse = cst.Else(block, leading_lines=[line for line in above if line.comment])
        return Lowered([inner.with_changes(orelse=orelse)], lowered.swallowed)

    def _false_branch(self, node: cst.If) -> Branch:
        match node.orelse:
            case None:
                return Branch([])
            case cst.Else():
                return branch_of(node.orelse.body, node.orelse.leading_lines)
            case _:
                return Branch([node.orelse])

    def _results(
        self,
        node: cst.If,
        last: cst.CSTNode,
        branches: Sequence[Branch],
        changed: Sequence[Sequence[str]],
        places: Sequence[Place],
    ) -> list[str]:
        """Names that the branches bind and that are used afterwards, bound in both at the end."""
        live = live_after(self.function, last) | {place.name for place in places} | self._carried
        before = definitely_bound_before(self.function, node)
        before |= {place.name for place in places if place.fact is not None}
        names: list[str] = []
        for branch in branches:
            names += [n for n in names_bound(branch.statements) if n not in names]
        for name in sorted({*changed[0], *changed[1]}):
            if name not in names and self._is_private(name):
                names.append(name)
        results = [name for name in names if name in live]
        for name in results:
            if name in self._declared:
                raise Refusal(f"`{name}` is global or nonlocal; return it, and bind it outside")
            if name not in before and not all(
                surely_binds(branch.statements, name) for branch in branches
            ):
                what = next((place.text for place in places if place.name == name), name)
                raise Refusal(f"`{what}` is used afterwards and bound on one path only")
        return results

    def _is_private(self, name: str) -> bool:
        return is_private(self.site, name, self.site.statement, self.values)

    def _changed(
        self, branches: Sequence[Branch], places: Sequence[Place]
    ) -> tuple[list[list[str]], list[str]]:
        """Tensors from outside that each branch changes in place, and those of them to write back.

        A private tensor need not be: the name gets another.  Asked of the branches as they were
        written: where a nested ``if`` has become a cond, its result is a new tensor, and a change
        of it would no longer look like one of the tensor outside.
        """
        changed: list[list[str]] = []
        written: list[str] = []
        held = {place.name: place for place in places}
        for branch in branches:
            sharing = Sharing(self.values)
            sharing.scan(branch.statements, {})
            found = [n for n in sorted(sharing.changed) if not self.values.is_python_name(n)]
            changed.append(found)
            for name in found:
                if name in held or not self._is_private(name):
                    written.append(name)
        bound = rebound([branch.statements for branch in branches])
        for name in written:
            what = held[name].text if name in held else name
            known = name in held or self.values.outside(name) is not None
            if not known or not self.values.is_tensor_name(name) or name in bound:
                fact = self.values.outside(name)
                advice = instead(fact.kind) if fact is not None else ""
                raise Refusal(f"a branch changes `{what}` in place{advice}")
        if written:
            self._check_apart(branches, written, held)
        return changed, list(dict.fromkeys(written))

    def _check_apart(
        self, branches: Sequence[Branch], written: Sequence[str], held: Mapping[str, Place]
    ) -> None:
        """Refuse where a tensor that a branch reads may share memory with one that it changes.

        The branch changes a copy, which is written back later: who reads the memory under another
        name would see it too late.
        """
        late: set[str] = set()
        for branch in branches:
            changed = False
            for statement in branch.statements:
                does = activity(statement)
                line = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
                begins = not changed and bool(does.mutates & set(written))
                changed = changed or begins
                if changed and not (begins and line):
                    # What one line reads, it reads before it changes anything.
                    late |= does.reads
        facts = {name: self.values.outside(name) for name in late | set(written)}
        for name in written:
            storage = (facts[name] or Fact("none")).storage
            for other in late - {name}:
                fact = facts[other]
                if fact is None or not fact.is_tensor or (name in held and other in held):
                    continue
                if storage and fact.storage == storage:
                    raise Refusal(f"`{name}` is changed in place and shares memory with `{other}`")
                self.apart.add(other)
        if any(place.fact is None for place in held.values() if place.name in written):
            raise Refusal("it is not known what the changed tensor is")

    def _change_copies(self, branch: Branch, changed: Sequence[str]) -> None:
        """Makes the branch change copies of its own, which it then gives as results."""
        for name in reversed(changed):
            branch.statements.insert(0, cst.parse_statement(f"{name} = {name}.clone()"))

    def _variables(self) -> set[str]:
        """Names that the function's text uses as variables, not as attributes."""
        words = activity(self.function.body)
        own = {*parameters_of(self.function.params), self.function.name.value}
        return set(words.reads | words.bound | words.declares | words.globals) | own

    def _check_effects(self, branch: Branch) -> None:
        effects = self.values.effects(*branch.statements)
        if effects.io:
            raise Refusal("a branch prints, logs, warns or touches files")
        if effects.rng:
            self.random = True
        self.opaque |= {text for text in effects.unknown if not is_operator(text)}
        self.opaque |= set(effects.modules)

    def _check_captured(self, branch: Branch) -> None:
        shared = activity(branch.statements).writes & self._captured
        if shared:
            raise Refusal(f"`{min(shared)}` is used by a nested function")

    # -- text --------------------------------------------------------------------------------

    def _emit(
        self,
        node: cst.If,
        condition: Condition,
        branches: tuple[Branch, Branch],
        names: tuple[str, str],
        targets: Sequence[Target],
        originals: tuple[list[cst.BaseStatement], list[cst.BaseStatement]],
        places: Sequence[Place],
        depth: int,
        made: CommonCall | None,
    ) -> list[cst.BaseStatement]:
        head, close, after = self._head(targets)
        if made is not None:
            head, close, after = made.around(head)
        above = [] if condition.tensor == self.flag else list(leading(node))
        has_else = bool(originals[1])
        true, false = branches
        true_value, false_value = true.expression, false.expression
        definitions: list[cst.BaseStatement] = []
        operands: list[str] = []
        if true_value is not None and false_value is not None:
            self._taken -= set(names)
            true_value, false_value = (
                _at_texts(value, places) for value in (true_value, false_value)
            )
            arms = [f"lambda: {lambda_body(value)}" for value in (true_value, false_value)]
            calls: list[str] | None = None
        else:
            bound = true.bound_from_outside() | false.bound_from_outside()
            operands, defaults = self._operands(node, sorted(bound))
            parameters = [*operands, *(f"{name}={name}" for name in defaults)]
            arms = list(names)
            outer = [place for place in places if place.name not in operands]
            for branch, name in zip(branches, names, strict=True):
                does = activity(branch.statements)
                free = [place for place in outer if place.name not in does.writes]
                if any(place.name in does.reads for place in free):
                    branch.statements = [with_texts(s, free) for s in branch.statements]
                definitions.append(branch.function(name, parameters))
            operands = [_operand(name, targets, places) for name in operands]
            calls = [f"{head}{name}({', '.join(operands)}){close}" for name in arms]
        level = depth + (1 if condition.python else 0)
        arguments = [condition.tensor, *arms]
        if operands:
            arguments.append(f"({', '.join(operands)}{',' if len(operands) == 1 else ''})")
        text = f"{head}{self.values.torch}.cond"
        call: cst.BaseStatement = statement_line(self.site, text, arguments, level, close=close)
        if not condition.python:
            return spaced(above, definitions, [call, *after])
        if after:
            raise Refusal("a branch changes tensors in place, behind a condition on Python values")
        guard_first = condition.joint == "and"
        if guard_first and not has_else:
            # Nothing happens where the Python part is false.
            inner = first_of_block(spaced([], definitions, [call]))
            return spaced(above, [], [wrap_in_if(condition.python, inner, None)])
        other_index = 1 if guard_first else 0
        if calls is not None:
            other: list[cst.BaseStatement] = [cst.parse_statement(calls[other_index])]
        else:
            other = list(originals[other_index])
        if not other:
            raise Refusal("the branch for the Python part of the condition is empty")
        first, second = ([call], other) if guard_first else (other, [call])
        if targets:
            return spaced(above, definitions, [wrap_in_if(condition.python, first, second)])
        return spaced(above, definitions, [wrap_in_if(condition.python, first, None), *second])

    def _head(self, targets: Sequence[Target]) -> tuple[str, str, list[cst.BaseStatement]]:
        """What stands before and after the call, and the lines that follow it."""
        if not targets:
            return "return ", "", []
        if len(targets) == 1 and (targets[0].written or targets[0].appended):
            method = "copy_" if targets[0].written else "append"
            return f"{targets[0].place}.{method}(", ")", []
        left: list[str] = []
        after: list[cst.BaseStatement] = []
        for target in targets:
            name = target.place
            if target.appended:
                name = target.name
                after.append(cst.parse_statement(f"{target.place}.append({name})"))
            if target.written:
                name = target.name
                if name == target.place:
                    name = fresh(f"new_{target.name}", self._taken)
                    self._taken.add(name)
                after.append(cst.parse_statement(f"{target.place}.copy_({name})"))
            left.append(name)
        return f"{', '.join(left)} = ", "", after

    def _operands(self, node: cst.If, bound: Sequence[str]) -> tuple[list[str], list[str]]:
        """Names that the branches rebind: tensors become operands, the rest default arguments."""
        operands: list[str] = []
        defaults: list[str] = []
        for name in bound:
            if name in self.values.named:
                operands.append(name)
                continue
            if name not in definitely_bound_before(self.function, node):
                raise Refusal(f"`{name}` may not be bound before the `if`")
            (operands if self.values.is_tensor_name(name) else defaults).append(name)
        return operands, defaults


def _targets(
    results: Sequence[str],
    written: Sequence[str],
    places: Sequence[Place],
    appended: Target | None,
) -> list[Target]:
    """Where all results of the branches go, those that are changed in place after the others."""
    targets = [Target(name, name) for name in results if name not in written]
    targets += [Target(name, name, written=True) for name in written]
    targets = [_at_place(target, places) for target in targets]
    return targets if appended is None else [*targets, appended]


def _at_place(target: Target, places: Sequence[Place]) -> Target:
    for place in places:
        if place.name == target.name:
            return dataclasses.replace(target, place=place.text)
    return target


def _at_texts(value: cst.BaseExpression, places: Sequence[Place]) -> cst.BaseExpression:
    """The value with places read where they are."""
    if not places:
        return value
    line = cst.SimpleStatementLine([cst.Return(value)])
    (small,) = cst.ensure_type(with_texts(line, places), cst.SimpleStatementLine).body
    new = cst.ensure_type(small, cst.Return).value
    assert new is not None
    return new


def _operand(name: str, targets: Sequence[Target], places: Sequence[Place]) -> str:
    """What a parameter of the branches is called with; what is written later goes in as a copy.

    The backward of cond keeps its operands, and they must not have changed by then.
    """
    text = next((place.text for place in places if place.name == name), name)
    written = any(target.written and target.name == name for target in targets)
    return f"{text}.clone()" if written else text
