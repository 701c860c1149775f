"""A branch gives None where the other gives a tensor, and what follows asks which of them it is.

What asks is moved into both branches: there the answer is known, and both leave tensors.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from gbfix.analysis.activity import Activity, activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import live_after
from gbfix.analysis.tree import code, walk

from .blocks import Block, size_of, statements_in
from .context import Context


@dataclasses.dataclass(frozen=True)
class Moved:
    """The choice, and what stood behind it: in its branches now (``users``), or before it.

    ``idle`` are statements before it that nobody needs now.
    """

    choice: cst.If
    users: Block
    first: Block
    idle: Block


_MOST = 8  # statements that may stand twice


def with_users(node: cst.If, before: Block, rest: Block, ctx: Context) -> Moved | None:
    """The choice with what uses such a name in its branches.

    ``before`` and ``rest`` stand around the choice in its block.  None where there is no such name,
    or where it is used further on.
    """
    if ctx.function is None or exits(node).jumps:
        return None
    body, orelse = statements_in(node.body), statements_in(node.orelse)
    absent: dict[str, bool] = {}
    for name in sorted({*activity(node.body).bound, *_bound(node.orelse)}):
        sides = [_is_none(name, arm, before, ctx) for arm in (body, orelse)]
        if None not in sides and sides[0] is not sides[1]:
            absent[name] = sides[0] is True
    if not absent or _is_captured(ctx.function, absent):
        return None
    users = [at for at, it in enumerate(rest) if _mentions(it, absent)]
    if not users or not any(_asks(it, absent) for it in rest[: users[-1] + 1]):
        return None
    moved = rest[: users[-1] + 1]
    left = exits(list(moved))
    if (
        left.breaks
        or left.continues
        or left.yields
        or left.returns > _is_return(moved[-1])
        or size_of(moved) > _MOST
    ):
        return None
    if absent.keys() & live_after(ctx.function, moved[-1]):
        return None
    first = _independent(node, moved, ctx)
    moved = [it for it in moved if it not in first]
    arms = []
    for arm, holds in ((body, True), (orelse, False)):
        known = {name: none is holds for name, none in absent.items()}
        arms.append([*arm, *_folded(moved, known)])
    made = node.with_changes(
        body=cst.IndentedBlock(arms[0] or [cst.SimpleStatementLine([cst.Pass()])]),
        orelse=cst.Else(cst.IndentedBlock(arms[1])) if arms[1] else None,
    )
    held = sum(_count(it, absent) for it in (node, *moved, *first))
    idle = [it for it in before if _is_idle(it, absent)]
    whole = _count(ctx.function, absent)
    return Moved(made, moved, first, idle if whole == held + len(idle) else [])


def _independent(node: cst.If, moved: Block, ctx: Context) -> list[cst.BaseStatement]:
    """Statements that bind names with which the choice has nothing to do: they may come first."""
    does = activity(node)
    first: list[cst.BaseStatement] = []
    if does.mutates or does.attribute_writes:
        return first
    reads, bound = set(does.reads), set(does.bound)
    for statement in moved:
        own = activity(statement)
        plain = (
            isinstance(statement, cst.SimpleStatementLine)
            and isinstance(statement.body[0], cst.Assign)
            and not own.mutates
            and not own.attribute_writes
            and not _may_tell(statement, does, ctx)
        )
        if plain and not own.reads & bound and not own.bound & (reads | bound):
            first.append(statement)
        elif own.mutates or own.mutates_unknown or own.attribute_writes or _calls(statement, ctx):
            break  # nothing is known to come out the same before it
        else:
            reads |= own.reads
            bound |= own.bound
    return first


def _calls(statement: cst.CSTNode, ctx: Context) -> list[cst.Call]:
    """Calls of neither torch's functions nor methods of tensors."""
    return [
        node
        for node in walk(statement)
        if isinstance(node, cst.Call)
        and not ctx.resolve(node.func).startswith("torch.")
        and not (isinstance(node.func, cst.Attribute) and ctx.is_tensor(node.func.value))
    ]


def _may_tell(statement: cst.CSTNode, choice: Activity, ctx: Context) -> bool:
    """Whether what a statement calls may change what a choice asks for."""
    shared = activity(statement).reads & choice.reads
    asks_self = any(call.startswith("self.") for call in choice.calls)
    for node in _calls(statement, ctx):
        call = code(node.func)
        if not call.startswith("self."):
            if shared:
                return True
            continue
        fact = ctx.fact(node.func)
        part = fact is not None and fact.kind == "module"
        asked = f"{call}." if part else "self."
        if asks_self or any(text.startswith(asked) for text in choice.attribute_reads):
            return True
    return False


def _is_captured(function: cst.FunctionDef, names: dict[str, bool]) -> bool:
    """Whether a function within the function knows one of the names."""
    inner = (it for it in walk(function.body) if isinstance(it, cst.FunctionDef | cst.Lambda))
    return any(_mentions(it, names) for it in inner)


def _is_return(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Return)


def _count(node: cst.CSTNode, names: dict[str, bool]) -> int:
    return sum(isinstance(it, cst.Name) and it.value in names for it in walk(node))


def _is_idle(node: cst.CSTNode, names: dict[str, bool]) -> bool:
    """Whether the line gives None to such a name, and says nothing more."""
    match node:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(name))], value=cst.Name("None")
                )
            ]
        ):
            return name in names and not comments_in(node)
    return False


def _bound(part: cst.CSTNode | None) -> frozenset[str]:
    return activity(part).bound if part is not None else frozenset()


def _is_none(name: str, arm: Block, before: Block, ctx: Context) -> bool | None:
    """Whether the name is None behind the arm; None where that is not sure."""
    for statement in (*reversed(arm), *reversed(before)):
        match statement:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(bound))], value=value)]
            ) if bound == name:
                if isinstance(value, cst.Name) and value.value == "None":
                    return True
                return False if ctx.is_tensor(value) else None
        if name in activity(statement).bound:
            return None
    return None


def _mentions(node: cst.CSTNode, names: dict[str, bool]) -> bool:
    return _count(node, names) > 0


def _asks(node: cst.CSTNode, names: dict[str, bool]) -> bool:
    return any(_asked(it, names) is not None for it in walk(node))


def _asked(node: cst.CSTNode, none: dict[str, bool]) -> bool | None:
    """What ``name is None`` says, where it is known whether the name is None."""
    match node:
        case cst.Comparison(
            left=cst.Name(name),
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.Is() | cst.IsNot() as operator, comparator=cst.Name("None")
                )
            ],
        ) if name in none:
            return none[name] is isinstance(operator, cst.Is)
    return None


class _Fold(cst.CSTTransformer):
    """Takes the side of a test that is known."""

    def __init__(self, none: dict[str, bool]) -> None:
        self._none = none

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.BaseExpression:
        known = self._known(original_node.test)
        if known is None:
            return updated_node
        side = updated_node.body if known else updated_node.orelse
        return side.with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)

    def leave_Comparison(
        self, original_node: cst.Comparison, updated_node: cst.Comparison
    ) -> cst.BaseExpression:
        known = _asked(original_node, self._none)
        return updated_node if known is None else cst.Name(str(known))

    def leave_BooleanOperation(
        self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation
    ) -> cst.BaseExpression:
        known = _asked(original_node.left, self._none)
        if known is None:
            return updated_node
        ands = isinstance(original_node.operator, cst.And)
        return updated_node.right if known is ands else cst.Name(str(known))

    def leave_If(
        self, original_node: cst.If, updated_node: cst.If
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        known = self._known(original_node.test)
        if known is None:
            match updated_node.test:
                case (
                    cst.BooleanOperation(left=left, operator=cst.And(), right=cst.Name("True"))
                    | cst.BooleanOperation(left=left, operator=cst.Or(), right=cst.Name("False"))
                ):
                    return updated_node.with_changes(test=left)
            return updated_node
        side = updated_node.body if known else updated_node.orelse
        new = statements_in(side)
        return cst.FlattenSentinel(new) if new else cst.RemoveFromParent()

    def _known(self, test: cst.BaseExpression) -> bool | None:
        match test:
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                ands = isinstance(operator, cst.And)
                sides = [self._known(left), self._known(right)]
                if (not ands) in sides:
                    return not ands
                return ands if sides == [ands, ands] else None
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                known = self._known(inner)
                return None if known is None else not known
        return _asked(test, self._none)


def _folded(statements: Block, none: dict[str, bool]) -> list[cst.BaseStatement]:
    new: list[cst.BaseStatement] = []
    for statement in statements:
        if not _asks(statement, none):
            new.append(statement)
            continue
        made = statement.visit(_Fold(none))
        if isinstance(made, cst.FlattenSentinel):
            new += [it for it in made if isinstance(it, cst.BaseStatement)]
        elif isinstance(made, cst.BaseStatement):
            new.append(made)
    return new
