"""``# gbfix: ignore[GB0170]``: graph breaks that somebody has decided to live with.

A comment speaks of the logical line that it stands in, all of its physical lines included;
without codes it speaks of every code.  Codes count in any spelling that `gbfix explain` takes.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import re
import tokenize
from collections.abc import Iterable, Mapping

from gbfix import registry

_COMMENT = re.compile(r"#\s*gbfix:\s*ignore(?:\[([^\]]*)\])?", re.IGNORECASE)
_NO_LINE = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)


@dataclasses.dataclass(frozen=True)
class Ignore:
    """One comment; no ``codes`` means all of them, ``unknown`` are words that are no codes."""

    line: int
    codes: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    def covers(self, code: str) -> bool:
        return code in self.codes or not (self.codes or self.unknown)


@functools.lru_cache(maxsize=64)
def ignores(text: str) -> Mapping[int, tuple[Ignore, ...]]:
    """The comments that speak of each line (from 1)."""
    if "gbfix:" not in text.lower():
        return {}
    found: dict[int, tuple[Ignore, ...]] = {}
    comments: list[Ignore] = []
    start = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                match = _COMMENT.match(token.string)
                if match:
                    comments.append(_ignore(token.start[0], match.group(1)))
            elif token.type == tokenize.NEWLINE:
                for line in range(start, token.start[0] + 1):
                    found[line] = tuple(comments)
                comments, start = [], 0
            if token.type == tokenize.NL and not start:
                comments = []  # a line of its own speaks of nothing
            elif not start and token.type not in _NO_LINE:
                start = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass  # what came before still counts
    return {line: items for line, items in found.items() if items}


def _ignore(line: int, listed: str | None) -> Ignore:
    codes, unknown = [], []
    for word in (listed or "").split(","):
        try:
            if word.strip():
                codes.append(registry.Registry.load().resolve(word))
        except registry.UnknownCodeError:
            unknown.append(word.strip())
    return Ignore(line, tuple(codes), tuple(unknown))


def ignored(text: str, line: int, code: str) -> bool:
    """Whether a break with this code on this line is to be passed over."""
    return any(item.covers(code) for item in ignores(text).get(line, ()))


def unused(text: str, seen: Iterable[tuple[int, str]]) -> list[Ignore]:
    """The comments that none of the breaks (line, code) needed, in their order."""
    known = ignores(text)
    used = {item for line, code in seen for item in known.get(line, ()) if item.covers(code)}
    every = {item for items in known.values() for item in items}
    return sorted(every - used, key=lambda item: item.line)
