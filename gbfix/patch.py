"""Unified diffs that `git apply` and `patch -p1` take, and merging of changes to one file.

Texts are compared line by line, where a line ends at ``\\n`` and nothing else: `git` and `patch`
know no other line end, while ``str.splitlines`` would also split at form feeds and ``\\u2028``.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from gbfix.schema import Patch
from gbfix.source import SourceError, SourceFile

_Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]
_BOM = "\ufeff"


class ConflictError(Exception):
    """Two changes of one file overlap or touch, so that no order of them is clearly right."""


@dataclasses.dataclass(frozen=True)
class _Change:
    """Lines ``start:end`` of the base become ``lines``."""

    start: int
    end: int
    lines: tuple[str, ...]


class _Compared(difflib.SequenceMatcher[str]):
    """A comparison already made, for difflib's grouping of opcodes with context."""

    def __init__(self, opcodes: list[_Opcode]) -> None:
        super().__init__(None, [], [])
        self._opcodes = opcodes

    def get_opcodes(self) -> list[_Opcode]:
        return self._opcodes


def unified_diff(before: str, after: str, path: str, *, context: int = 3) -> str:
    """The unified diff of two texts of a file, empty when they are equal.

    ``path`` names the file in the headers, after ``a/`` and ``b/``: give it relative to the folder
    where the diff will be applied (see `header_path`).  ``\\r\\n`` stays as it is, and a missing
    newline at the end of the file is marked as `git` and `patch` expect it.  With ``context=0``,
    ``git apply`` needs ``--unidiff-zero``.
    """
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    groups = _Compared(_opcodes(old, new)).get_grouped_opcodes(context)
    out = [f"--- {_header('a/' + path)}\n", f"+++ {_header('b/' + path)}\n"]
    for group in groups:
        first, last = group[0], group[-1]
        out.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += [_body(" ", line) for line in old[i1:i2]]
            else:
                out += [_body("-", line) for line in old[i1:i2]]
                out += [_body("+", line) for line in new[j1:j2]]
    return "".join(out)


def diff_bytes(patch: Patch, cwd: str | Path) -> bytes:
    """A patch's diff as bytes that apply to the file on disk: in its encoding, with its byte order
    mark.  Where the file cannot be read any more, the diff in UTF-8.
    """
    try:
        source = SourceFile.read(Path(cwd, patch.path))
    except SourceError:
        return patch.diff.encode("utf-8", "surrogateescape")
    if not source.bom and source.encoding == "utf-8":
        return patch.diff.encode("utf-8", "surrogateescape")
    mark = _BOM if source.bom else ""
    diff = unified_diff(mark + patch.before, mark + patch.after, header_path(patch.path, cwd))
    # Two header lines hold the path, which is in the file system's encoding, not the file's.
    headers, body = diff.split("\n@@", 1) if diff else ("", "")
    return os.fsencode(headers) + b"\n@@" + body.encode(source.encoding) if diff else b""


def replacements(before: str, after: str) -> list[tuple[int, int, str]]:
    """The change as edits: lines ``start:end`` (from 0) of the old text become the given text."""
    old, new = _lines(before), _lines(after)
    return [
        (i1, i2, "".join(new[j1:j2]))
        for tag, i1, i2, j1, j2 in _opcodes(old, new)
        if tag != "equal"
    ]


def display_path(path: str | Path, cwd: str | Path) -> str:
    """The path as a reader finds it: relative to ``cwd`` where it lies below it, else in full."""
    absolute = Path(os.path.abspath(Path(cwd, path)))
    try:
        return absolute.relative_to(os.path.abspath(cwd)).as_posix()
    except ValueError:
        return absolute.as_posix()


def header_path(path: str | Path, cwd: str | Path) -> str:
    """The path as the header of a diff has it, after ``a/``: outside of ``cwd`` from the root on,
    so that ``git apply --directory`` and ``patch -p1 -d /`` find it.
    """
    return display_path(path, cwd).lstrip("/")


def merge(base: str, *versions: str) -> str:
    """The base with the changes of all versions, each of which was made from the base.

    Equal changes count once.  Raises `ConflictError` when changes overlap, touch each other, or
    insert different lines at the same place.
    """
    lines = _lines(base)
    changes = {
        _Change(i1, i2, tuple(new[j1:j2]))
        for new in map(_lines, versions)
        for tag, i1, i2, j1, j2 in _opcodes(lines, new)
        if tag != "equal"
    }
    ordered = sorted(changes, key=lambda change: (change.start, change.end))
    for one, other in itertools.pairwise(ordered):
        if other.start <= one.end:
            raise ConflictError(f"two changes meet at line {other.start + 1}")
    for change in reversed(ordered):
        lines[change.start : change.end] = change.lines
    return "".join(lines)


def conflicting(patches: Sequence[Patch]) -> list[str]:
    """Paths for which there are several patches that cannot be merged into one."""
    found = []
    for path in dict.fromkeys(patch.path for patch in patches):
        same = [patch for patch in patches if patch.path == path]
        if len({patch.before for patch in same}) > 1:
            found.append(path)
            continue
        try:
            merge(same[0].before, *(patch.after for patch in same))
        except ConflictError:
            found.append(path)
    return found


def _lines(text: str) -> list[str]:
    """Lines with their ends, split at ``\\n`` alone."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def _opcodes(old: list[str], new: list[str]) -> list[_Opcode]:
    """As `difflib.SequenceMatcher.get_opcodes`, but comparing only between the common ends:
    patches are small and files are not, and difflib's time grows with repeated lines.
    """
    limit = min(len(old), len(new))
    head = next((i for i in range(limit) if old[i] != new[i]), limit)
    limit -= head
    tail = next((i for i in range(limit) if old[-1 - i] != new[-1 - i]), limit)
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    # Frequent lines as anchors give the smallest diffs, at a cost that grows with their square.
    middle = difflib.SequenceMatcher(None, left, right, autojunk=len(left) + len(right) > 1000)
    opcodes: list[_Opcode] = [("equal", 0, head, 0, head)] if head else []
    for tag, i1, i2, j1, j2 in middle.get_opcodes():
        opcodes.append((tag, i1 + head, i2 + head, j1 + head, j2 + head))
    if tail:
        opcodes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return _joined(opcodes)


def _joined(opcodes: list[_Opcode]) -> list[_Opcode]:
    """Neighbouring ``equal`` stretches made one: grouping by context relies on that."""
    joined: list[_Opcode] = []
    for opcode in opcodes:
        if joined and joined[-1][0] == "equal" == opcode[0]:
            _, i1, _, j1, _ = joined.pop()
            opcode = ("equal", i1, opcode[2], j1, opcode[4])
        joined.append(opcode)
    return joined


def _range(start: int, stop: int) -> str:
    """A range as in a hunk's header: counted from 1; an empty one names the line before it."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"


def _body(prefix: str, line: str) -> str:
    if line.endswith("\n"):
        return prefix + line
    return f"{prefix}{line}\n\\ No newline at end of file\n"


def _header(name: str) -> str:
    """The file name as `git` writes it: quoted where it holds quotes or control characters, and
    followed by a tab where it holds a space (or `patch` would cut it off there).
    """
    special = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}
    if any(c in special or ord(c) < 32 for c in name):
        quoted = "".join(special.get(c, c if ord(c) >= 32 else f"\\{ord(c):03o}") for c in name)
        return f'"{quoted}"'
    return f"{name}\t" if " " in name else name
