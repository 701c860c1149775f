"""Positions: the client's units against Python's characters.

gbfix counts lines from 1 and columns in characters (`gbfix.schema`), the protocol counts both from
0 and columns in code units of an encoding that client and server agree on.  Lines end at ``\\n``,
``\\r\\n`` and ``\\r`` for both (``str.splitlines`` would also split at form feeds and ``\\u2028``).
"""

from __future__ import annotations

import bisect
import enum
import re

from lsprotocol import types as lsp

from gbfix.schema import Span

_LINE_END = re.compile(r"\r\n|\n|\r")


class Encoding(enum.StrEnum):
    """The unit in which a client counts columns; UTF-16 unless it offers something else."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


def width(text: str, encoding: Encoding) -> int:
    """How many units a text takes."""
    if encoding is Encoding.UTF32 or text.isascii():
        return len(text)
    if encoding is Encoding.UTF8:
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text) + sum(char > "\uffff" for char in text)


class Text:
    """A text with its lines; immutable."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.text = text
        self.encoding = encoding
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    @property
    def line_count(self) -> int:
        """Lines as an editor counts them: an empty one follows a final newline."""
        return len(self._starts)

    def line(self, number: int) -> str:
        """The line with this number (from 0), without its end; empty beyond the last."""
        if not 0 <= number < len(self._starts):
            return ""
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[number] : end].rstrip("\r\n")

    def offset(self, position: lsp.Position) -> int:
        """The index into the text; what lies beyond a line or the text counts as its end."""
        if position.line >= len(self._starts):
            return len(self.text)
        line = self.line(position.line)
        return self._starts[position.line] + self._column(line, position.character)

    def position(self, line: int, column: int) -> lsp.Position:
        """A position from a line (from 1) and a column in characters."""
        text = self.line(line - 1)
        return lsp.Position(max(line - 1, 0), width(text[:column], self.encoding))

    def at(self, offset: int) -> lsp.Position:
        """The position of an index into the text."""
        line = bisect.bisect_right(self._starts, offset) - 1
        piece = self.text[self._starts[line] : offset]
        return lsp.Position(line, width(piece, self.encoding))

    def range(self, span: Span) -> lsp.Range:
        """A span as a range of this text."""
        return lsp.Range(
            self.position(span.line, span.column), self.position(span.end_line, span.end_column)
        )

    def whole_line(self, line: int) -> lsp.Range:
        """The code of a line (from 1), without its indentation."""
        text = self.line(line - 1)
        start = len(text) - len(text.lstrip())
        return lsp.Range(self.position(line, start), self.position(line, len(text.rstrip())))

    def place(self, position: lsp.Position) -> tuple[int, int]:
        """Line (from 1) and column in characters of a client's position."""
        return position.line + 1, self._column(self.line(position.line), position.character)

    def _column(self, line: str, units: int) -> int:
        if self.encoding is Encoding.UTF32 or line.isascii():
            return min(units, len(line))
        taken = 0
        for column, char in enumerate(line):
            # A position inside a character is taken for its start.
            taken += width(char, self.encoding)
            if taken > units:
                return column
        return len(line)
