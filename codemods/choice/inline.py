"""Last touches: a test that is used once is written where it is used, long lines are broken."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.tree import code, walk

from .renaming import replaced

#: What is in these is evaluated again and again, or later.
_REPEATED = cst.ListComp | cst.GeneratorExp | cst.DictComp | cst.SetComp | cst.Lambda


def finish(
    statements: Sequence[cst.BaseStatement], names: Sequence[str]
) -> list[cst.BaseStatement]:
    """Statements in which each of these names that is read once stands no more."""
    result = list(statements)
    for name in names:
        at = next((i for i, it in enumerate(result) if _binds(it, name)), None)
        if at is None:
            continue
        line = result[at]
        assert isinstance(line, cst.SimpleStatementLine)
        value = line.body[0]
        assert isinstance(value, cst.Assign)
        uses = [i for i, it in enumerate(result) for _ in range(_count(it, name))]
        uses.remove(at)
        if not uses:
            if at + 1 < len(result):
                result[at + 1] = result[at + 1].with_changes(leading_lines=line.leading_lines)
            del result[at]
            continue
        if len(uses) != 1 or not _may_move(result, at, uses[0], value.value, name):
            continue
        where = uses[0]
        user = result[where]
        new = replaced(user, {name: _fitting(value.value, user, name)})
        above = [*line.leading_lines, *getattr(new, "leading_lines", ())]
        if where == at + 1:
            new = new.with_changes(leading_lines=above)
        else:
            result[at + 1] = result[at + 1].with_changes(
                leading_lines=[*line.leading_lines, *getattr(result[at + 1], "leading_lines", ())]
            )
        result[where] = new
        del result[at]
    return result


def _binds(node: cst.BaseStatement, name: str) -> bool:
    match node:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value))])]
        ):
            return value == name
    return False


def _count(node: cst.CSTNode, name: str) -> int:
    return sum(1 for it in walk(node) if isinstance(it, cst.Name) and it.value == name)


def _may_move(
    statements: Sequence[cst.BaseStatement], at: int, to: int, value: cst.BaseExpression, name: str
) -> bool:
    """Whether the test may be evaluated at its use: nothing in between changes what it reads."""
    if not isinstance(statements[to], cst.SimpleStatementLine):
        return False
    if len(code(value)) > 60:
        return to == at + 1 and len(code(value)) <= 88
    if any(_count(it, name) for it in walk(statements[to]) if isinstance(it, _REPEATED)):
        return False
    read = {it.value for it in walk(value) if isinstance(it, cst.Name)}
    for statement in statements[at + 1 : to]:
        match statement:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(bound))])]
            ):
                if bound in read:
                    return False
            case _:
                return False
    return True


def _fitting(value: cst.BaseExpression, user: cst.CSTNode, name: str) -> cst.BaseExpression:
    """The value with parentheses unless it is an argument of its own."""
    tight = cst.Name | cst.Call | cst.Attribute | cst.Subscript
    if isinstance(value, tight) or value.lpar:
        return value
    for node in walk(user):
        alone = node.value if isinstance(node, cst.Arg | cst.Assign | cst.Return) else None
        if isinstance(alone, cst.Name) and alone.value == name:
            return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
