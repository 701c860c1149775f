"""Edits that nest: the text of a node with the edits below it made, as often as asked.

`Splice` replaces stretches of text and refuses overlaps; here an outer edit is written in terms of
the nodes inside it, which may have edits of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from gbfix.analysis.tree import children
from gbfix.codemod import Site


class Atom:
    """A node rendered so that a dot or a bracket may follow it."""

    def __init__(self, node: cst.CSTNode) -> None:
        self.node = node


class Bare(Atom):
    """A node rendered without the parentheses around it, where a comma or a bracket follows."""


Part = str | cst.CSTNode | Atom
Parts = Sequence[Part]

_TIGHT = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.List,
    cst.SimpleString,
)


class Nested:
    """Renders nodes of a site with edits made; a part that is the edited node is its old text."""

    def __init__(self, site: Site, edits: Mapping[cst.CSTNode, Parts]) -> None:
        self._site = site
        self._edits = edits
        self._lines = site.source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def render(self, node: cst.CSTNode) -> str:
        """The node's text, its own edit included."""
        parts = self._edits.get(node)
        if parts is None:
            return self._below(node)
        return "".join(self._part(node, part) for part in parts)

    def outermost(self, root: cst.CSTNode) -> list[cst.CSTNode]:
        """The edited nodes below the root that stand in no other edited node."""
        found: list[cst.CSTNode] = []
        stack = [root]
        while stack:
            node = stack.pop()
            if node in self._edits:
                found.append(node)
            else:
                stack.extend(children(node))
        return found

    def _part(self, owner: cst.CSTNode, part: str | cst.CSTNode | Atom) -> str:
        if isinstance(part, str):
            return part
        node = part.node if isinstance(part, Atom) else part
        text = self._below(node) if node is owner else self.render(node)
        if isinstance(part, Bare):
            wrapped = len(getattr(node, "lpar", ())) == 1 and node not in self._edits
            return text[1:-1].strip() if wrapped and "\n" not in text else text
        if not isinstance(part, Atom) or self._is_tight(owner, node):
            return text
        return f"({text})"

    def _is_tight(self, owner: cst.CSTNode, node: cst.CSTNode) -> bool:
        if getattr(node, "lpar", ()):
            return True
        parts = self._edits.get(node) if node is not owner else None
        if parts is None:
            return isinstance(node, _TIGHT)
        # What an edit writes is tight if it starts with an atom or ends what it opened.
        first = parts[0]
        return isinstance(first, Atom) or (isinstance(first, str) and first.endswith("("))

    def _below(self, node: cst.CSTNode) -> str:
        start, end = self._extent(node)
        source, position, out = self._site.source, start, []
        for inner in sorted(
            (found for child in children(node) for found in self.outermost(child)),
            key=lambda found: self._extent(found)[0],
        ):
            first, last = self._extent(inner)
            out += [source[position:first], self.render(inner)]
            position = last
        return "".join([*out, source[position:end]])

    def _extent(self, node: cst.CSTNode) -> tuple[int, int]:
        """Where the node stands in the text, its parentheses included."""
        span = self._site.span(node)
        left, right = list(getattr(node, "lpar", ())), list(getattr(node, "rpar", ()))
        if not left:
            return (
                self._starts[span.line - 1] + span.column,
                self._starts[span.end_line - 1] + span.end_column,
            )
        first, last = self._site.span(left[0]), self._site.span(right[-1])
        return (
            self._starts[first.line - 1] + first.column,
            self._starts[last.end_line - 1] + last.end_column,
        )
