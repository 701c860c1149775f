"""Which breaks are one to the reader, while patches move the lines on which they stand."""

from __future__ import annotations

import dataclasses

from gbfix.ladder import moved_line
from gbfix.schema import GraphBreak


def identity(found: GraphBreak) -> tuple[str, str, str, str]:
    """A break as the reader knows it, however its line moves within its function."""
    if found.site is None:
        return (found.code, found.region, "", found.message[:200])
    return (found.code, found.site.path, found.site.function, found.site.text.strip())


def moved_back(found: GraphBreak, patched: str, on_disk: str) -> GraphBreak:
    """The break with its line as in the user's file, where the patched line stands there."""
    if found.site is None:
        return found
    line = moved_line(patched, on_disk, found.site.line)
    if line is None:
        return found
    return dataclasses.replace(found, site=dataclasses.replace(found.site, line=line))


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
