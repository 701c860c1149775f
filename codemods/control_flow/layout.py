"""How new statements are laid out: blank lines, comments above, calls that fit the line."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.build import line_length
from gbfix.analysis.tree import code
from gbfix.codemod import Site

from .branches import leading, without_blank_start


def statement_line(
    site: Site, call: str, arguments: Sequence[str], depth: int, *, close: str = ""
) -> cst.SimpleStatementLine:
    """``call(arguments)`` as a statement, one argument a line where the file's lines are shorter.

    ``call`` is the text before the parenthesis (``x = torch.cond``), ``depth`` how many blocks the
    statement will stand in, ``close`` what closes parentheses in ``call``.
    """
    indent = site.module.default_indent
    line = f"{call}({', '.join(arguments)}){close}"
    columns = len(line) + depth * len(indent.expandtabs(4))
    if "\n" in line or columns > line_length(site.module):
        room = line_length(site.module) - (depth + 1) * len(indent.expandtabs(4)) - 1
        fitted = [_fitted(argument, room, indent) for argument in arguments]
        inner = "".join(f"{indent}{argument},\n" for argument in fitted)
        line = f"{call}(\n{inner}){close}"
    statement = cst.parse_statement(line + "\n", config=site.module.config_for_parsing)
    assert isinstance(statement, cst.SimpleStatementLine)
    return statement


def _fitted(text: str, room: int, indent: str) -> str:
    """The argument; a tuple that does not fit has an element a line."""
    if len(text) <= room or not text.startswith("("):
        return text
    node = cst.parse_expression(text)
    if not isinstance(node, cst.Tuple):
        return text
    elements = [code(element.value) for element in node.elements]
    return "(\n" + "".join(f"{indent * 2}{element},\n" for element in elements) + f"{indent})"


def wrap_in_if(
    test: str, body: Sequence[cst.BaseStatement], orelse: Sequence[cst.BaseStatement] | None = None
) -> cst.If:
    """``if test:`` around statements, with an ``else`` where there are others."""
    template = cst.parse_statement(f"if {test}:\n    pass\n")
    assert isinstance(template, cst.If)
    new = template.with_changes(body=cst.IndentedBlock(first_of_block(body)))
    if orelse is not None:
        new = new.with_changes(orelse=cst.Else(cst.IndentedBlock(first_of_block(orelse))))
    return new


_BLANK = cst.EmptyLine(indent=False)


def spaced(
    above: Sequence[cst.EmptyLine],
    definitions: Sequence[cst.BaseStatement],
    calls: Sequence[cst.BaseStatement],
) -> list[cst.BaseStatement]:
    """Definitions with a blank line around each, then the calls; what stood above comes first."""
    statements = [d.with_changes(leading_lines=[_BLANK, *leading(d)]) for d in definitions]
    for number, call in enumerate(calls):
        blank = [_BLANK] if definitions and number == 0 else []
        kept = without_blank_start(leading(call)) if number == 0 else leading(call)
        statements.append(call.with_changes(leading_lines=[*blank, *kept]))
    lines = list(above)
    if definitions and not any(line.comment is None for line in lines):
        lines.insert(0, _BLANK)
    own = without_blank_start(leading(statements[0]))
    statements[0] = statements[0].with_changes(leading_lines=[*lines, *own])
    return statements


def first_of_block(statements: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """The statements without blank lines before the first."""
    first, *others = statements
    return [first.with_changes(leading_lines=without_blank_start(leading(first))), *others]
