"""What a block of statements holds: the statements of a suite, its size, how control leaves it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.tree import walk

Block = Sequence[cst.BaseStatement]


def statements_in(part: cst.CSTNode | None) -> list[cst.BaseStatement]:
    """The statements of a suite, of an ``else`` or of an ``elif``; none where there is no part."""
    match part:
        case cst.IndentedBlock(body=body):
            return list(body)
        case cst.SimpleStatementSuite(body=small):
            return [cst.SimpleStatementLine([it]) for it in small]
        case cst.Else(body=body):
            return statements_in(body)
        case cst.If():
            return [part]
    return []


def else_with(statements: Block) -> cst.Else:
    """An ``else`` of statements that stood elsewhere."""
    return cst.Else(cst.IndentedBlock(unspaced(statements)))


def unspaced(statements: Block) -> list[cst.BaseStatement]:
    """The statements of a block without blank lines before the first."""
    if not statements:
        return [cst.SimpleStatementLine([cst.Pass()])]
    head, *others = statements
    above = leading_lines(head)
    lines = list(above)
    while lines and lines[0].comment is None:
        lines.pop(0)
    # What was made of which statement is known by identity.
    return [head if lines == above else head.with_changes(leading_lines=lines), *others]


def leading_lines(node: cst.CSTNode) -> list[cst.EmptyLine]:
    """The blank lines and comments above a statement."""
    return list(getattr(node, "leading_lines", ()))


def ends_control(statements: Block) -> bool:
    """Whether control never gets to the end of the statements."""
    if not statements:
        return False
    last = statements[-1]
    match last:
        case cst.SimpleStatementLine():
            return isinstance(last.body[-1], cst.Return | cst.Continue | cst.Raise)
        case cst.If():
            return ends_control(statements_in(last.body)) and ends_control(
                statements_in(last.orelse)
            )
        case cst.With():
            return ends_control(statements_in(last.body))
    return False


def size_of(statements: Block) -> int:
    """How many statements there are, those inside of others counted."""
    return sum(isinstance(it, cst.BaseStatement) for line in statements for it in walk(line))
