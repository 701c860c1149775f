"""Edits of source text by position, for rewrites that must not disturb a byte around them.

`gbfix.codemod.Edit` owns the comments above a statement that it removes; here they stay.  Where a
rewrite only drops or replaces stretches of text, this is the exact tool.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence

import libcst as cst

from gbfix.codemod import Rewrite, Site
from gbfix.schema import Safety, Span

_NEWLINE = re.compile(r"\r\n|\n|\r")


class Splice:
    """Collects replacements of stretches of a site's text and turns them into a `Rewrite`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(site.source))]
        self._edits: list[tuple[int, int, str]] = []
        self._touched: list[Span] = []

    def replace(self, node: cst.CSTNode, text: str) -> None:
        """Put ``text`` where the node stands, its own parentheses included."""
        self.replace_span(self._with_parentheses(node), text)

    def replace_span(self, span: Span, text: str) -> None:
        start = self._offset(span.line, span.column)
        end = self._offset(span.end_line, span.end_column)
        self._edits.append((start, end, text))
        self._touched.append(span)

    def replace_lines(self, first: int, last: int, text: str) -> None:
        """Replace whole lines, both included, but for the last one's newline."""
        end = self._starts[last] if last < len(self._starts) else len(self._site.source)
        length = len(self._site.source[self._starts[last - 1] : end].rstrip("\r\n"))
        self.replace_span(Span(first, 0, last, length), text)

    def delete_lines(self, node: cst.CSTNode) -> None:
        """Delete the lines of a statement; what stands on the lines above it stays."""
        span = self._site.span(node)
        if span.end_line < len(self._starts):
            self.replace_span(Span(span.line, 0, span.end_line + 1, 0), "")
            return
        # The last line of a file without a final newline: so shall be the line above it.
        above = self._site.source[: self._starts[span.line - 1]].removesuffix("\n")
        above = above.removesuffix("\r")
        self.replace_span(self._span(len(above), len(self._site.source)), "")

    def delete_rows(self, first: int, last: int) -> None:
        """Delete whole lines, both included, after which others follow."""
        self.replace_span(Span(first, 0, last + 1, 0), "")

    def remove_first(self, statement: cst.BaseSmallStatement) -> None:
        """Remove the first simple statement of a block; what becomes empty gets ``pass``."""
        line = self._site.statement_of(statement)
        if not isinstance(line, cst.SimpleStatementLine):
            raise ValueError("the statement stands on no line of its own block")
        own = self._site.span(statement)
        if len(line.body) > 1:
            following = self._site.span(line.body[1])
            self.replace_span(Span(own.line, own.column, following.line, following.column), "")
        elif len(self._site.block_of(line)) > 1:
            self.delete_lines(line)
        else:
            self.replace_span(own, "pass")

    def remove(self, statement: cst.BaseSmallStatement | cst.BaseCompoundStatement) -> None:
        """Remove a statement, and its lines if nothing else stands on them."""
        line = self._site.statement_of(statement)
        body = getattr(line, "body", ()) if isinstance(line, cst.SimpleStatementLine) else ()
        own = self._site.span(statement)
        place = next((n for n, item in enumerate(body) if item is statement), 0)
        if len(self._site.block_of(line)) == 1 and len(body) < 2:
            self.replace_span(own, "pass")
        elif len(body) < 2:
            self.delete_lines(line)
        elif place + 1 < len(body):
            after = self._site.span(body[place + 1])
            self.replace_span(Span(own.line, own.column, after.line, after.column), "")
        else:
            above = self._site.span(body[place - 1])
            self.replace_span(
                Span(above.end_line, above.end_column, own.end_line, own.end_column), ""
            )

    def insert(self, line: int, column: int, text: str) -> None:
        self.replace_span(Span(line, column, line, column), text)

    def insert_line_before(
        self, node: cst.CSTNode, text: str, *, above_comments: bool = True
    ) -> None:
        """Put a line of text, indented alike, above a statement (and above its comments)."""
        indent = self._indent(node)
        line = self._first_line(node)
        for above in reversed(getattr(node, "leading_lines", ())):
            if above.comment is None or not above_comments:
                break
            line -= 1
        self.insert(line, 0, f"{indent}{text}{self._site.module.default_newline}")

    def insert_function(self, text: str) -> None:
        """Put a function of its own above the function or class of the module that is edited."""
        if text:
            top = self._site.top_level_statement(self._site.statement)
            module = self._site.module
            text = text.strip("\n").replace("    ", module.default_indent) + "\n\n"
            above = len(top.leading_lines) if isinstance(top, cst.BaseStatement) else 0
            if top is not module.body[0] and not above:
                text = f"\n\n{text}"  # as black has it
            self.insert_line_before(top, text.replace("\n", module.default_newline))

    def _first_line(self, node: cst.CSTNode) -> int:
        """LibCST's positions of functions and classes leave out their decorators."""
        decorators = getattr(node, "decorators", ())
        return self._site.span(decorators[0] if decorators else node).line

    def _indent(self, node: cst.CSTNode) -> str:
        span = self._site.span(node)
        start = self._starts[span.line - 1]
        return self._site.source[start : start + span.column]

    def source_of(self, node: cst.CSTNode) -> str:
        """The node's text as it stands in the file: `Site.text` loses the indentation of lines."""
        span = self._with_parentheses(node)
        start = self._offset(span.line, span.column)
        return self._site.source[start : self._offset(span.end_line, span.end_column)]

    def insert_behind(self, node: cst.BaseExpression, text: str) -> None:
        """Put text behind an expression and its own parentheses."""
        span = self._with_parentheses(node)
        self.insert(span.end_line, span.end_column, text)

    def text(self) -> str:
        """The source with all replacements made; overlapping ones are an error.

        What is inserted at one place stands in the order in which it was asked for.
        """
        source, position, parts = self._site.source, 0, []
        for start, end, new in sorted(self._edits, key=lambda edit: edit[:2]):
            if start < position:
                if new:
                    raise ValueError("two replacements overlap")
                start = position  # deleting what is deleted already
            end = max(end, start)
            parts += [source[position:start], new]
            position = end
        return "".join([*parts, source[position:]])

    def rewrite(
        self,
        title: str,
        *,
        safety: Safety = Safety.SAFE,
        notes: Sequence[str] = (),
        rank: int = 20,
        assumes: Sequence[str] = (),
        shows: Sequence[str] = (),
        prepares: bool = False,
    ) -> Rewrite:
        path = self._site.path
        return Rewrite(
            title,
            {path: self.text()},
            {path: tuple(self._touched)},
            safety=safety,
            notes=tuple(notes),
            rank=rank,
            assumes=tuple(assumes),
            shows=tuple(shows),
            prepares=prepares,
        )

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _with_parentheses(self, node: cst.CSTNode) -> Span:
        """LibCST's positions leave out the parentheses around an expression."""
        span = self._site.span(node)
        left, right = list(getattr(node, "lpar", ())), list(getattr(node, "rpar", ()))
        if not left:
            return span
        first, last = self._site.span(left[0]), self._site.span(right[-1])
        return Span(first.line, first.column, last.end_line, last.end_column)

    def _span(self, start: int, end: int) -> Span:
        return Span(*self._position(start), *self._position(end))

    def _position(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1]
