"""Which functions of a workspace are compiled regions, and what can be reached from one.

Files are read when they are needed: those whose text names a compile call, and from there on the
ones that their regions call.  Nothing is imported; names are followed as far as assignments and
imports spell them out.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence

from gbfix.lsp.summary import Compiled, Function, Summary, summarize
from gbfix.lsp.syntax import Parsed
from gbfix.source import SourceError, SourceFile

#: Folders in which nobody's own code lives.
_SKIPPED = frozenset(
    {"__pycache__", "node_modules", "site-packages", "dist-packages", "venv", "build", "dist"}
)
#: Beyond this many Python files a workspace is not searched further for regions.
MAX_FILES = 20_000
_MAX_BYTES = 2_000_000

Key = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Root:
    """A region: the function that is compiled, and the place where that is said."""

    path: str
    qualname: str
    compiled_path: str
    compiled: Compiled


@dataclasses.dataclass(frozen=True)
class Reached:
    """A function that runs inside a region; ``parent`` is its caller on the way there."""

    root: Root
    parent: Key | None


class Index:
    """The summaries of a workspace's files.  Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._disk: dict[str, Summary | None] = {}
        self._open: dict[str, Summary] = {}
        self._candidates: set[str] = set()
        self._reached: dict[Key, Reached] | None = None
        #: What functions call, as far as it was asked for; lines play no part in it.
        self._callees: dict[Key, tuple[Key, ...]] = {}
        self._roots: list[str] = []
        self._homes: dict[tuple[str, str], tuple[str, str]] = {}
        self._changes: collections.Counter[str] = collections.Counter()

    # -- what is known -----------------------------------------------------------------------

    def set_roots(self, roots: Sequence[str]) -> None:
        with self._lock:
            self._roots = [os.path.abspath(root) for root in roots]
            self._changes[""] += 1
            self._forget()

    def put(self, path: str, parsed: Parsed) -> Summary:
        """The text of an open document; it counts instead of the file until `drop`."""
        summary = summarize(path, parsed)
        with self._lock:
            before = self._open.get(path)
            if before != summary:
                self._open[path] = summary
                self._changes[path] += 1
                self._take_up(path, before, summary)
        return summary

    def drop(self, path: str) -> None:
        """The file on disk counts again, and is read anew."""
        with self._lock:
            self._open.pop(path, None)
            self._disk.pop(path, None)
            self._changes[path] += 1
            self._forget()

    def changed(self, path: str) -> None:
        """The file was written, made or removed."""
        with self._lock:
            self._disk.pop(path, None)
            self._changes[path] += 1
            self._candidates.discard(path)
            if path.endswith(".py") and _names_compile(path):
                self._candidates.add(path)
            self._forget()

    def scan(self, cancelled: Callable[[], bool] = lambda: False) -> int:
        """Look through the roots for files that may compile something; how many were looked at."""
        seen = 0
        for root in list(self._roots):
            for path in python_files(root):
                if seen >= MAX_FILES or cancelled():
                    return seen
                seen += 1
                if _names_compile(path):
                    with self._lock:
                        self._candidates.add(path)
        with self._lock:
            self._reached = None
        return seen

    def add_candidates(self, root: str) -> None:
        """Look through one folder more, as `scan` does through the roots."""
        found = itertools.islice(python_files(root), MAX_FILES)
        with self._lock:
            self._candidates |= {path for path in found if _names_compile(path)}
            self._reached = None

    # -- questions ---------------------------------------------------------------------------

    def summary(self, path: str) -> Summary | None:
        """A file's summary, read from disk where it is not open; None if it is no valid Python."""
        with self._lock:
            if path in self._open:
                return self._open[path]
            if path not in self._disk:
                self._disk[path] = _read(path)
            return self._disk[path]

    def elsewhere(self, path: str) -> int:
        """A number that is another one once any other file, or the roots, changed."""
        with self._lock:
            return sum(count for name, count in self._changes.items() if name != path)

    def reached(self) -> dict[Key, Reached]:
        """Every function known to run inside a region, by path and qualified name."""
        with self._lock:
            if self._reached is None:
                self._reached = self._follow()
            return self._reached

    def chain(self, key: Key, most: int) -> list[Key]:
        """The callers of a function, nearest first, up to its region or to so many."""
        reached = self.reached()
        found: list[Key] = []
        current = reached[key].parent if key in reached else None
        while current is not None and current not in found and len(found) < most:
            found.append(current)
            current = reached[current].parent if current in reached else None
        return found

    def roots_in(self, path: str) -> list[Root]:
        """The regions that are defined or compiled in a file."""
        roots = {entry.root for entry in self.reached().values()}
        found = [root for root in roots if path in (root.path, root.compiled_path)]
        return sorted(found, key=lambda root: (root.compiled.line, root.qualname))

    # -- inside ------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._reached = None
        self._callees.clear()
        self._homes.clear()

    def _take_up(self, path: str, before: Summary | None, now: Summary) -> None:
        """Let go of what an edit made wrong, and of nothing else: this runs at every keystroke."""
        if before is None or not _names_the_same(before, now):
            self._reached = None
            self._callees.clear()
            return
        for name, function in now.functions.items():
            if function.calls != before.functions[name].calls:
                self._callees.pop((path, name), None)
                self._reached = None
        if [_unplaced(item) for item in before.compiled] != [_unplaced(i) for i in now.compiled]:
            self._reached = None
        elif before.compiled != now.compiled and self._reached is not None:
            moved = dict(zip(before.compiled, now.compiled, strict=True))
            for key, entry in self._reached.items():
                root = entry.root
                if root.compiled_path == path:
                    root = dataclasses.replace(root, compiled=moved[root.compiled])
                    self._reached[key] = Reached(root, entry.parent)

    def _follow(self) -> dict[Key, Reached]:
        found: dict[Key, Reached] = {}
        queue: collections.deque[tuple[Key, Root, Key | None]] = collections.deque()
        for path in sorted({*self._candidates, *self._open}):
            summary = self.summary(path)
            for compiled in summary.compiled if summary else ():
                for key in self._compiled(path, compiled):
                    queue.append((key, Root(*key, path, compiled), None))
        while queue:
            key, root, parent = queue.popleft()
            if key in found:
                continue
            summary = self.summary(key[0])
            function = summary.functions.get(key[1]) if summary else None
            if summary is None or function is None or (function.opaque and parent is not None):
                continue
            found[key] = Reached(root, parent)
            if key not in self._callees:
                called = (self.resolve(key[0], function, name) for name in function.calls)
                self._callees[key] = tuple(dict.fromkeys(itertools.chain.from_iterable(called)))
            for callee in self._callees[key]:
                if callee not in found:
                    queue.append((callee, root, key))
        return found

    def _compiled(self, path: str, compiled: Compiled) -> Iterator[Key]:
        if compiled.decorator:
            yield path, compiled.target
            return
        summary = self.summary(path)
        assert summary is not None
        scope = summary.functions.get(compiled.scope)
        around = scope or Function(compiled.scope, 0, 0, ())
        yield from self.resolve(path, around, compiled.target)
        made = summary.made.get(compiled.target.partition(".")[0])
        if made is not None and "." not in compiled.target:
            yield from self.resolve(path, around, made)

    def resolve(self, path: str, function: Function, name: str) -> list[Key]:
        """The functions that a written name calls from inside a function."""
        summary = self.summary(path)
        if summary is None:
            return []
        head, _, rest = name.partition(".")
        if head in ("self", "cls") and function.owner:
            if not rest:
                return self._method(path, function.owner, "forward")
            if "." not in rest:
                direct = self._method(path, function.owner, rest)
                if direct:
                    return direct
            return self._part(path, function.owner, rest)
        # Inner functions shadow module-level ones.
        scope = function.qualname
        while scope:
            if f"{scope}.{name}" in summary.functions:
                return [(path, f"{scope}.{name}")]
            scope = scope.rpartition(".")[0]
        local = self._defined(path, name)
        if local:
            return local
        made = summary.made.get(head)
        if made is not None and made != name and head not in summary.imports:
            # ``layer(x)`` and ``layer.encode(x)`` of ``layer = Layer()``.
            home = self._class_named(path, made)
            if home is not None:
                return self._method(*home, rest or "forward")
        return self._imported(path, summary.meaning(name))

    def _defined(self, path: str, name: str) -> list[Key]:
        """A function, method or class of a file by its name there."""
        summary = self.summary(path)
        if summary is None:
            return []
        if name in summary.functions:
            return [(path, name)]
        if name in summary.classes:
            return self._method(path, name, "forward")
        return []

    def _method(self, path: str, owner: str, name: str, depth: int = 0) -> list[Key]:
        """A method of a class or of the nearest base that has it."""
        summary = self.summary(path)
        known = summary.classes.get(owner) if summary else None
        if known is None or depth > 8:
            return []
        if name in known.methods:
            return [(path, f"{owner}.{name}")]
        for base in known.bases:
            home = self._class_named(path, base)
            found = self._method(*home, name, depth + 1) if home else []
            if found:
                return found
        return []

    def _part(self, path: str, owner: str, rest: str) -> list[Key]:
        """``block(x)`` and ``block.encode(x)`` of a class that stores ``self.block = Block()``."""
        part, _, method = rest.partition(".")
        home = self.part_class(path, owner, part)
        return self._method(*home, method or "forward") if home and "." not in method else []

    def part_class(self, path: str, owner: str, part: str) -> tuple[str, str] | None:
        summary = self.summary(path)
        known = summary.classes.get(owner) if summary else None
        made = known.parts.get(part) if known else None
        return self._class_named(path, made) if made else None

    def _class_named(self, path: str, name: str, depth: int = 0) -> tuple[str, str] | None:
        summary = self.summary(path)
        if summary is None or depth > 8:
            return None
        if name in summary.classes:
            return path, name
        home, rest = self._home(path, summary.meaning(name))
        return self._class_named(home, rest, depth + 1) if home and rest and home != path else None

    def _imported(self, path: str, name: str, depth: int = 0) -> list[Key]:
        home, rest = self._home(path, name)
        if not home or not rest or depth > 8:
            return []
        found = self._defined(home, rest)
        if found:
            return found
        summary = self.summary(home)
        owner, _, method = rest.rpartition(".")
        if summary is not None and owner in summary.classes:
            return self._method(home, owner, method)
        onward = summary.meaning(rest) if summary else rest
        # Packages pass names on: ``from .blocks import Block`` in ``__init__.py``.
        return self._imported(home, onward, depth + 1) if onward != rest else []

    def _home(self, path: str, name: str) -> tuple[str, str]:
        """The file of a dotted name, and what remains of the name inside it."""
        where = (os.path.dirname(path), name)
        if where not in self._homes:
            self._homes[where] = self._search(*where)
        return self._homes[where]

    def _search(self, folder: str, name: str) -> tuple[str, str]:
        dots = len(name) - len(name.lstrip("."))
        if dots:
            for _ in range(dots - 1):
                folder = os.path.dirname(folder)
            starts = [folder]
        else:
            starts = [folder, *self._roots, *(os.path.join(r, "src") for r in self._roots)]
        parts = name.lstrip(".").split(".")
        for start in starts:
            for length in range(len(parts), -1 if dots else 0, -1):
                base = os.path.join(start, *parts[:length])
                rest = ".".join(parts[length:])
                for candidate in (f"{base}.py", os.path.join(base, "__init__.py")):
                    if self._exists(candidate):
                        return candidate, rest
        return "", ""

    def _exists(self, path: str) -> bool:
        return path in self._open or path in self._disk or os.path.isfile(path)


def _names_the_same(one: Summary, other: Summary) -> bool:
    """Whether names mean the same in both, wherever they stand and whatever functions call."""
    return (
        one.imports == other.imports
        and one.made == other.made
        and one.classes == other.classes
        and [(name, item.owner, item.opaque) for name, item in one.functions.items()]
        == [(name, item.owner, item.opaque) for name, item in other.functions.items()]
    )


def _unplaced(compiled: Compiled) -> tuple[str, str, bool]:
    return compiled.target, compiled.scope, compiled.decorator


def python_files(root: str) -> Iterator[str]:
    """The project's own Python files, nearest first; no environments, caches or hidden folders."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED
            and not name.startswith(".")
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        )
        for name in sorted(names):
            if name.endswith(".py"):
                yield os.path.join(folder, name)


def _names_compile(path: str) -> bool:
    try:
        if os.path.getsize(path) > _MAX_BYTES:
            return False
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return False
    return b"compile" in data and b"torch" in data


def _read(path: str) -> Summary | None:
    try:
        if os.path.getsize(path) > _MAX_BYTES:
            return None
        parsed = Parsed.of(SourceFile.read(path).text)
    except (OSError, SourceError):
        return None
    return summarize(path, parsed) if parsed is not None else None
