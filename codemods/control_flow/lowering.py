"""Lowers a data-dependent ``if`` and what hangs on it to statements around ``torch.cond``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import Activity, activity
from gbfix.analysis.exits import always_returns
from gbfix.analysis.liveness import definitely_bound_before, live_after
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.tree import code
from gbfix.codemod import Site

from .branches import (
    Branch,
    Sharing,
    branch_of,
    check_movable,
    check_structures,
    finish,
    has_comment,
    leading,
    names_bound,
)
from .closures import captured_for_later
from .layout import first_of_block, spaced, statement_line, wrap_in_if
from .predicates import Condition, Refusal, is_data_dependent, split
from .uses import is_private
from .values import Values


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
        other = [] if node.orelse is None else _else_statements(node.orelse)
        true_returns = always_returns(node.body)
        false_returns = bool(other) and always_returns(other)
        swallowed: Sequence[cst.BaseStatement] = ()
        if true_returns != false_returns:
            # The branch that does not return goes on with what follows the whole statement.
            if not always_returns(rest):
                raise Refusal("one branch returns, and what follows the `if` does not always")
            swallowed = rest
        returns = true_returns or false_returns
        true = branch_of(node.body)
        false = self._false_branch(node)
        if returns and not true_returns:
            true.statements = [*true.statements, *rest]
        elif returns and not false_returns:
            false.statements = [*false.statements, *rest]
        for branch in (true, false):
            check_movable(branch.statements, returns=returns)
            self._check_effects(branch)
        results = [] if returns else self._results(node)
        if not returns and not results:
            raise Refusal("the branches bind no name that is used afterwards")
        names = self._function_names(condition)
        originals = (list(true.statements), list(false.statements))
        for branch in (true, false):
            self._check_captured(branch)
            changed = self._changed(branch)
            branch.statements = self.block(branch.statements, depth + 1)
            if not returns:
                _end_with(branch, results)
            self._change_copies(branch, changed)
        self.results |= set(results)
        finished = [
            finish(branch, self.values, clone_unknown=self.clone_unknown)
            for branch in (true, false)
        ]
        check_structures(finished)
        for branch in finished:
            self.unknown |= branch.unknown
            self.copied |= branch.copied
            self.kept |= branch.kept
        true, false = finished
        new = self._emit(node, condition, (true, false), names, results, originals, depth)
        return Lowered(new, swallowed)

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

    def _results(self, node: cst.If) -> list[str]:
        """Names that the branches bind and that are used afterwards, bound in both at the end."""
        blocks: list[Sequence[cst.CSTNode]] = [[node.body]]
        if node.orelse is not None:
            blocks.append([node.orelse])
        live = live_after(self.function, node)
        before = definitely_bound_before(self.function, node)
        names: list[str] = []
        for block in blocks:
            names += [name for name in names_bound(block) if name not in names]
        changed = activity(*blocks).mutates & before
        names += sorted(n for n in changed if n not in names and self._is_private(n))
        results = [name for name in names if name in live]
        for name in results:
            if name in self._declared:
                raise Refusal(f"`{name}` is global or nonlocal")
            if name not in before and not (
                len(blocks) == 2 and all(_surely_binds(block, name) for block in blocks)
            ):
                raise Refusal(f"`{name}` is used afterwards and bound on one path only")
        return results

    def _is_private(self, name: str) -> bool:
        return is_private(self.site, name, self.site.statement, self.values)

    def _changed(self, branch: Branch) -> list[str]:
        """Private tensors from outside that the branch changes in place; other changes refuse.

        Asked of the branch as it was written: where a nested ``if`` has become a cond, its result
        is a new tensor, and a change of it would no longer look like one of the tensor outside.
        """
        sharing = Sharing(self.values)
        sharing.scan(branch.statements, {})
        changed = [n for n in sorted(sharing.changed) if not self.values.is_python_name(n)]
        for name in changed:
            if not self._is_private(name):
                raise Refusal(f"a branch changes `{name}` in place")
        return changed

    def _change_copies(self, branch: Branch, changed: Sequence[str]) -> None:
        """Makes the branch change copies of its own, which it then gives as results."""
        for name in reversed(changed):
            branch.statements.insert(0, cst.parse_statement(f"{name} = {name}.clone()"))

    def _check_effects(self, branch: Branch) -> None:
        effects = self.values.effects(*branch.statements)
        if effects.io:
            raise Refusal("a branch prints, logs, warns or touches files")
        if effects.rng:
            self.random = True
        self.opaque |= {text for text in effects.unknown if not _is_operator(text)}
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
        results: Sequence[str],
        originals: tuple[list[cst.BaseStatement], list[cst.BaseStatement]],
        depth: int,
    ) -> list[cst.BaseStatement]:
        head = f"{', '.join(results)} = " if results else "return "
        has_else = bool(originals[1])
        true, false = branches
        true_value, false_value = true.expression, false.expression
        definitions: list[cst.BaseStatement] = []
        operands: list[str] = []
        if true_value is not None and false_value is not None:
            self._taken -= set(names)
            arms = [f"lambda: {_lambda_body(value)}" for value in (true_value, false_value)]
            calls: list[str] | None = None
        else:
            bound = true.bound_from_outside() | false.bound_from_outside()
            operands, defaults = self._operands(node, sorted(bound))
            parameters = [*operands, *(f"{name}={name}" for name in defaults)]
            arms = list(names)
            for branch, name in zip(branches, names, strict=True):
                definitions.append(branch.function(name, parameters))
            calls = [f"{head}{name}({', '.join(operands)})" for name in arms]
        level = depth + (1 if condition.python else 0)
        arguments = [condition.tensor, *arms]
        if operands:
            arguments.append(f"({', '.join(operands)}{',' if len(operands) == 1 else ''})")
        call = statement_line(self.site, f"{head}{self.values.torch}.cond", arguments, level)
        above = list(leading(node))
        if not condition.python:
            return spaced(above, definitions, [call])
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
        if results:
            return spaced(above, definitions, [wrap_in_if(condition.python, first, second)])
        return spaced(above, definitions, [wrap_in_if(condition.python, first, None), *second])

    def _operands(self, node: cst.If, bound: Sequence[str]) -> tuple[list[str], list[str]]:
        """Names that the branches rebind: tensors become operands, the rest default arguments."""
        operands: list[str] = []
        defaults: list[str] = []
        for name in bound:
            if name not in definitely_bound_before(self.function, node):
                raise Refusal(f"`{name}` may not be bound before the `if`")
            (operands if self.values.is_tensor_name(name) else defaults).append(name)
        return operands, defaults


def _is_operator(text: str) -> bool:
    """Whether the text is an expression that holds no parameters: no call at its root."""
    try:
        return not isinstance(cst.parse_expression(text), cst.Call)
    except cst.ParserSyntaxError:
        return False


def _lambda_body(value: cst.BaseExpression) -> str:
    text = code(value)
    if isinstance(value, cst.Tuple) and not value.lpar:
        return f"({text})"
    return text


def _else_statements(orelse: cst.If | cst.Else) -> list[cst.BaseStatement]:
    if isinstance(orelse, cst.If):
        return [orelse]
    return branch_of(orelse.body).statements


def _surely_binds(block: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether running the block to its end binds the name on every path."""
    for node in block:
        match node:
            case cst.IndentedBlock() | cst.SimpleStatementSuite() | cst.SimpleStatementLine():
                if _surely_binds(list(node.body), name):
                    return True
            case cst.Else() | cst.With():
                if _surely_binds([node.body], name):
                    return True
            case cst.If():
                if (
                    node.orelse is not None
                    and _surely_binds([node.body], name)
                    and _surely_binds([node.orelse], name)
                ):
                    return True
            case cst.Assign() | cst.AnnAssign() | cst.Import() | cst.ImportFrom():
                if name in activity(node).writes:
                    return True
    return False


def _end_with(branch: Branch, results: Sequence[str]) -> None:
    """Ends a branch with ``return`` of the names; ``x = f(x)`` at its end becomes the return."""
    branch.statements = [s for s in branch.statements if not _is_pass(s)]
    if len(results) == 1 and branch.statements:
        last = branch.statements[-1]
        if isinstance(last, cst.SimpleStatementLine):
            value = _assigned(last.body[-1], results[0])
            if value is not None:
                new = cst.Return(value, whitespace_after_return=cst.SimpleWhitespace(" "))
                body = [*last.body[:-1], new]
                branch.statements[-1] = last.with_changes(body=body)
                return
    line = f"return {', '.join(results)}"
    branch.statements.append(cst.parse_statement(line))


def _is_pass(node: cst.BaseStatement) -> bool:
    return (
        isinstance(node, cst.SimpleStatementLine)
        and len(node.body) == 1
        and isinstance(node.body[0], cst.Pass)
        and not has_comment(node.leading_lines)
        and node.trailing_whitespace.comment is None
    )


def _assigned(node: cst.BaseSmallStatement, name: str) -> cst.BaseExpression | None:
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=target))], value=value):
            return value if target == name else None
        case cst.AnnAssign(target=cst.Name(value=target), value=cst.BaseExpression() as value):
            return value if target == name else None
    return None


def check_later_changes(site: Site, node: cst.CSTNode, values: Values, names: set[str]) -> None:
    """Refuse where a later change in place would have reached a tensor that is now a copy."""
    later = activity_after(site, node)
    for name in sorted(later.mutates):
        if name in later.augments and values.is_rebound_by_augmenting(name):
            continue
        fact = values.outside(name)
        if name in names or fact is None or fact.is_tensor:
            raise Refusal(f"`{name}` is changed in place afterwards, and would be a copy by then")


def activity_after(site: Site, statement: cst.CSTNode) -> Activity:
    """What may run once the statement has run."""
    later: list[cst.CSTNode] = []
    child = statement
    for parent in site.ancestors(statement):
        if isinstance(parent, cst.For | cst.While):
            later.append(parent)
        if parent is site.function:
            break
        block = getattr(parent, "body", ())
        if isinstance(block, list | tuple) and child in block:
            later.extend(block[list(block).index(child) + 1 :])
        child = parent
    return activity(later)
