"""Questions about the blocks of a branch, and small changes of them."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.tree import code, walk

from .branches import Branch, branch_of, has_comment
from .refusal import Refusal


def rebound(blocks: Sequence[Sequence[cst.CSTNode]]) -> set[str]:
    """Names that statements bind to another object, or unbind: not those that they augment."""
    binding = (
        cst.Assign
        | cst.AnnAssign
        | cst.NamedExpr
        | cst.AsName
        | cst.Del
        | cst.Import
        | cst.ImportFrom
        | cst.FunctionDef
        | cst.ClassDef
    )
    names: set[str] = set()
    for block in blocks:
        for node in (inner for statement in block for inner in walk(statement)):
            if isinstance(node, cst.For):
                names |= {n.value for n in walk(node.target) if isinstance(n, cst.Name)}
            elif isinstance(node, binding):
                names |= activity(node).bound
    return names


def ends_round(branch: Branch) -> bool:
    """Whether the branch ends with ``continue``, on a line of its own, and has no other."""
    match branch.statements:
        case [*_, cst.SimpleStatementLine(body=[cst.Continue()])]:
            return exits(branch.statements).continues == 1
    return False


def ends_with_break(branch: Branch) -> bool:
    """Whether the branch ends with ``break``, on a line of its own, and has no other."""
    match branch.statements:
        case [*_, cst.SimpleStatementLine(body=[cst.Break()])]:
            return exits(branch.statements).breaks == 1
    return False


def without_continue(branch: Branch) -> None:
    """Drops the ``continue`` (or ``break``) at the end; its comments go above the branch."""
    last = branch.statements.pop()
    assert isinstance(last, cst.SimpleStatementLine)
    lines = [line for line in last.leading_lines if line.comment is not None]
    if last.trailing_whitespace.comment is not None:
        lines.append(cst.EmptyLine(comment=last.trailing_whitespace.comment))
    branch.above = [*branch.above, *lines]


def both_append_to(branches: Sequence[Branch]) -> str | None:
    """The list's name where each branch ends with ``outs.append(value)``, and has no other use."""
    (name, *others) = {_appends_to(branch) for branch in branches}
    if others or name is None:
        return None
    reads = any(name in activity(branch.statements[:-1]).reads for branch in branches)
    return None if reads else name


def _appends_to(branch: Branch) -> str | None:
    match branch.statements:
        case [
            *_,
            cst.SimpleStatementLine(
                body=[
                    cst.Expr(
                        value=cst.Call(
                            func=cst.Attribute(
                                value=cst.Name(value=name), attr=cst.Name(value="append")
                            ),
                            args=[cst.Arg(keyword=None, star="")],
                        )
                    )
                ]
            ),
        ]:
            return name
    return None


def bind_item(branches: Sequence[Branch], item: str, name: str) -> None:
    """``item = value`` for the ``outs.append(value)`` at the end of each branch."""
    for branch in branches:
        line = cst.ensure_type(branch.statements[-1], cst.SimpleStatementLine)
        call = cst.ensure_type(cst.ensure_type(line.body[0], cst.Expr).value, cst.Call)
        value = call.args[0].value
        if name in activity(value).reads:
            raise Refusal(f"a branch reads `{name}`, and appends to it")
        branch.statements[-1] = line.with_changes(
            body=[cst.Assign([cst.AssignTarget(cst.Name(item))], value)]
        )


def surely_binds(block: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether running the block to its end binds the name on every path."""
    for node in block:
        match node:
            case cst.IndentedBlock() | cst.SimpleStatementSuite() | cst.SimpleStatementLine():
                if surely_binds(list(node.body), name):
                    return True
            case cst.Else() | cst.With():
                if surely_binds([node.body], name):
                    return True
            case cst.If():
                if (
                    node.orelse is not None
                    and surely_binds([node.body], name)
                    and surely_binds([node.orelse], name)
                ):
                    return True
            case cst.Assign() | cst.AnnAssign() | cst.Import() | cst.ImportFrom():
                if name in activity(node).writes:
                    return True
    return False


def end_with(branch: Branch, results: Sequence[str]) -> None:
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


def is_operator(text: str) -> bool:
    """Whether the text is an expression that holds no parameters: no call at its root."""
    try:
        return not isinstance(cst.parse_expression(text), cst.Call)
    except cst.ParserSyntaxError:
        return False


def lambda_body(value: cst.BaseExpression) -> str:
    text = code(value)
    if isinstance(value, cst.Tuple) and not value.lpar:
        return f"({text})"
    return text


def else_statements(orelse: cst.If | cst.Else) -> list[cst.BaseStatement]:
    if isinstance(orelse, cst.If):
        return [orelse]
    return branch_of(orelse.body).statements
