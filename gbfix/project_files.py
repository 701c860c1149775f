"""The texts of a whole project, also of files that the program did not load.

Who overrides a method, registers hooks or imports a file under another name may stand in any of
them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping

from gbfix.source import SourceError, SourceFile

#: A project with more files than this is read in part: it is a collection of projects.
_MOST_FILES = 2000
_MOST_BYTES = 1_000_000
_SKIPPED = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})


@functools.lru_cache(maxsize=2)
def texts(root: str) -> Mapping[str, str]:
    """By path: the Python files below a folder, without environments and hidden folders."""
    found: dict[str, str] = {}
    for path in _paths(root):
        if len(found) >= _MOST_FILES:
            break
        try:
            found[path] = SourceFile.read(path).text
        except SourceError:
            continue
    return found


def _paths(root: str) -> Iterator[str]:
    for folder, below, names in os.walk(root):
        below[:] = sorted(
            name
            for name in below
            if name not in _SKIPPED
            and not name.startswith(".")
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        )
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py") and os.path.getsize(path) <= _MOST_BYTES:
                yield path
