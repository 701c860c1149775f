"""Masks of a loop's statements, and the lines that are written for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.tree import code, walk


@dataclasses.dataclass(frozen=True)
class Mask:
    """When statements count: where the flag is set, or (``rests``) where it is not."""

    flag: str
    rests: bool = True

    def chosen(self, torch: str, old: str, new: str) -> str:
        arms = (old, new) if self.rests else (new, old)
        return f"{torch}.where({self.flag}, {', '.join(arms)})"

    def counts(self, torch: str) -> str:
        return f"{torch}.logical_not({self.flag})" if self.rests else self.flag


def ifs_in(node: cst.CSTNode) -> list[cst.If]:
    return [inner for inner in walk(node) if isinstance(inner, cst.If)]


def rows_written(node: cst.CSTNode) -> set[str]:
    """What rows are written of: names, and the texts of what has none."""
    found: set[str] = set()
    for inner in walk(node):
        if isinstance(inner, cst.AssignTarget | cst.AugAssign):
            target: cst.BaseExpression = inner.target
            while isinstance(target, cst.Subscript):
                target = target.value
                if not isinstance(target, cst.Subscript):
                    found.add(code(target))
    return found


def line_of(
    text: str,
    above: Sequence[cst.EmptyLine] = (),
    header: cst.Comment | None = None,
) -> cst.BaseStatement:
    line = cst.parse_statement(text)
    assert isinstance(line, cst.SimpleStatementLine)
    if header is not None:
        trailing = cst.TrailingWhitespace(cst.SimpleWhitespace("  "), header)
        line = line.with_changes(trailing_whitespace=trailing)
    return line.with_changes(leading_lines=above)


def like(node: cst.BaseStatement, text: str) -> cst.BaseStatement:
    """A line of this text with the comments of the node."""
    line = cst.parse_statement(text)
    assert isinstance(line, cst.SimpleStatementLine)
    assert isinstance(node, cst.SimpleStatementLine)
    return line.with_changes(
        leading_lines=node.leading_lines, trailing_whitespace=node.trailing_whitespace
    )


def comment_of(node: cst.BaseStatement) -> cst.Comment | None:
    return node.trailing_whitespace.comment if isinstance(node, cst.SimpleStatementLine) else None
