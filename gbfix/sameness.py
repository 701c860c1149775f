"""Which breaks are one to the reader, while patches move the lines on which they stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from gbfix.ladder import moved_line
from gbfix.schema import BreakReport, GraphBreak, Region


def identity(found: GraphBreak) -> tuple[str, str, str, str]:
    """A break as the reader knows it, however its line moves within its function."""
    if found.site is None:
        return (found.code, found.region, "", found.message[:200])
    return (found.code, found.site.path, found.site.function, found.site.text.strip())


def place(found: GraphBreak) -> tuple[str, str, str, str, int]:
    """A break among those of one text, in which two lines of a function may read alike."""
    return (*identity(found), found.site.line if found.site is not None else 0)


def entries(
    shown: Iterable[BreakReport], found: GraphBreak, on_disk: GraphBreak
) -> list[BreakReport]:
    """The entries of a report that are about a break: of those that read alike, the nearest.

    That is the one on its line and column, and in its region, where there is one.
    """
    alike = [item for item in shown if same(item.graph_break, found, on_disk)]

    def nearness(item: BreakReport) -> tuple[bool, bool, bool]:
        known, there = item.graph_break.site, on_disk.site
        if known is None or there is None or known.line != there.line:
            return (False, False, item.graph_break.region == found.region)
        return (True, known.column == there.column, item.graph_break.region == found.region)

    best = max(map(nearness, alike), default=None)
    return [item for item in alike if nearness(item) == best]


def moved_back(found: GraphBreak, patched: str, on_disk: str) -> GraphBreak:
    """The break with its line as in the user's file, where the patched line stands there."""
    if found.site is None:
        return found
    line = moved_line(patched, on_disk, found.site.line)
    if line is None:
        return found
    return dataclasses.replace(found, site=dataclasses.replace(found.site, line=line))


def moved_region(
    region: Region | None, on_disk: Callable[[str], str], patched: Mapping[str, str]
) -> Region | None:
    """A region with its lines as in the patched texts, where these have them."""
    if region is None:
        return None

    def moved(path: str, line: int) -> int:
        if path not in patched:
            return line
        return moved_line(on_disk(path), patched[path], line) or line

    lines = moved(region.path, region.line), moved(region.compile_path, region.compile_line)
    return dataclasses.replace(region, line=lines[0], compile_line=lines[1])


def same(known: GraphBreak, found: GraphBreak, on_disk: GraphBreak) -> bool:
    """Whether two breaks are one; ``on_disk`` is the second with its line in the user's file.

    A patch may have moved the statement into another function.
    """
    if identity(known) == identity(found):
        return True
    if known.site is None or on_disk.site is None:
        return False
    return (known.code, known.site.path, known.site.line, known.site.text.strip()) == (
        found.code,
        on_disk.site.path,
        on_disk.site.line,
        on_disk.site.text.strip(),
    )
