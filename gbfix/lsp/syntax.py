"""A module's syntax tree, kept up to date with what is typed.

Parsing and reading a thousand lines takes longer than one may wait for at every key.  An edit
inside one function, which most edits are, parses that function alone and leaves the rest of the
tree as it was, with a number to add to its lines.
"""

from __future__ import annotations

import ast
import bisect
import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def parse(text: str) -> ast.Module | None:
    """The syntax tree of a text; None where it is not valid Python (as while somebody types)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclasses.dataclass(eq=False, slots=True)
class Piece:
    """A statement of a module, or of a class directly in one.

    ``first`` is its first line (from 1; decorators count) in the present text, ``shift`` what has
    to be added to the line numbers of ``node``.  ``notes`` belongs to whoever reads the tree: it
    is kept for as long as the statement stays what it is.
    """

    node: ast.stmt
    first: int
    shift: int
    owner: ast.ClassDef | None
    notes: Any = None


class Parsed:
    """The tree of one text.  `edit` changes it in place: one thread at a time."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self.text = text
        self.tree = tree
        self._lines = text.split("\n")
        self._pieces: list[Piece] = []
        for node in tree.body:
            self._pieces.append(Piece(node, _first(node), 0, None))
            if isinstance(node, ast.ClassDef):
                self._pieces += [Piece(item, _first(item), 0, node) for item in node.body]

    @classmethod
    def of(cls, text: str) -> Parsed | None:
        """The parsed text; None where it is not valid Python."""
        tree = parse(text)
        return cls(text, tree) if tree is not None else None

    @property
    def pieces(self) -> Sequence[Piece]:
        """All of the text, top to bottom; a class comes before what stands in it."""
        return self._pieces

    def edit(self, text: str) -> bool:
        """Take up a new text if it differs in one function only; else False, and nothing is done.

        The result is the tree that parsing the whole would give: the function's text is a complete
        statement before and after, in the same column, and what stands around is untouched.
        """
        if text.count("\r") != text.count("\r\n") or "\f" in text or text.startswith("\ufeff"):
            return False  # other ends and starts of lines than the ones counted here
        if text.rstrip("\n").endswith("\\"):
            return False  # no line follows that the last one could go on in
        lines = text.split("\n")
        old = self._lines
        start = 0
        for start, (one, other) in enumerate(zip(old, lines, strict=False)):  # noqa: B007
            if one != other:
                break
        else:
            start = min(len(old), len(lines))
        end = 0
        limit = min(len(old), len(lines)) - start
        while end < limit and old[-1 - end] == lines[-1 - end]:
            end += 1
        stop = len(old) - end
        if start == stop and len(old) == len(lines):
            return self.text == text
        # Lines that are put between two functions may belong to either.
        last = bisect.bisect_right(self._pieces, start + 1, key=lambda piece: piece.first) - 1
        return any(
            self._replace(number, start, stop, text, lines)
            for number in ((last - 1, last) if last > 0 else (last,))
            if number >= 0
        )

    def _replace(self, number: int, start: int, stop: int, text: str, lines: list[str]) -> bool:
        piece = self._pieces[number]
        old = piece.node
        following = number + 1 < len(self._pieces)
        after = self._pieces[number + 1].first - 1 if following else len(self._lines)
        first = piece.first - 1
        if not isinstance(old, FunctionNode) or start < first or stop > after:
            return False
        grown = len(lines) - len(self._lines)
        margin = old.col_offset
        body = "\n".join(lines[first : after + grown]) + "\n"
        tree = parse(f"class _:\n{body}" if margin else body)
        if tree is None or len(tree.body) != 1:
            return False
        new: ast.stmt = tree.body[0]
        if margin:
            assert isinstance(new, ast.ClassDef)
            if len(new.body) != 1:
                return False
            new = new.body[0]
        if not isinstance(new, FunctionNode) or new.name != old.name:
            return False
        shift = first - bool(margin)
        before = self._lines[old.lineno + piece.shift - 1][:margin]
        if new.col_offset != margin or lines[new.lineno + shift - 1][:margin] != before:
            return False
        siblings = piece.owner.body if piece.owner is not None else self.tree.body
        siblings[siblings.index(old)] = new
        self._pieces[number] = Piece(new, _first(new) + shift, shift, piece.owner)
        for other in self._pieces[number + 1 :]:
            other.first += grown
            other.shift += grown
        self.text, self._lines = text, lines
        return True


def _first(node: ast.stmt) -> int:
    if isinstance(node, FunctionNode | ast.ClassDef) and node.decorator_list:
        return node.decorator_list[0].lineno
    return node.lineno
