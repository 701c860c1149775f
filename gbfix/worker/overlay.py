"""Serves source text from memory: patched files, and files instrumented for a look inside.

The text that Python compiles, `inspect.getsource` shows and tracebacks quote is the overlay's; the
file on disk is not touched, and no bytecode cache is read or written for it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import tokenize
import types
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from typing import Any

from gbfix.source import ABSENT
from gbfix.worker.protocol import Instrument

Transform = Callable[[ast.Module, Sequence[Instrument]], ast.Module]


class Overlay:
    """Patched texts by real path, and instruments by real path."""

    def __init__(
        self,
        files: Mapping[str, bytes],
        instruments: Sequence[Instrument],
        transform: Transform,
    ) -> None:
        self._transform = transform
        self.replace(files, instruments)

    def replace(self, files: Mapping[str, bytes], instruments: Sequence[Instrument]) -> None:
        """Serve these instead of all before."""
        self._files = {os.path.realpath(path): data for path, data in files.items()}
        self._instruments: dict[str, list[Instrument]] = {}
        for item in instruments:
            self._instruments.setdefault(os.path.realpath(item.path), []).append(item)
        absent = ABSENT.encode()
        self._absent = frozenset(path for path, data in self._files.items() if data == absent)
        self._added = frozenset(
            path for path in self._files.keys() - self._absent if not os.path.exists(path)
        )

    def hides(self, path: str) -> bool:
        """Whether the program is not to find a file that is there."""
        return bool(self._absent) and os.path.realpath(path) in self._absent

    @property
    def has_added(self) -> bool:
        return bool(self._added)

    def adds(self, path: str) -> bool:
        """Whether the program is to find a file that is not there."""
        return bool(self._added) and os.path.realpath(path) in self._added

    @property
    def paths(self) -> frozenset[str]:
        """The real paths of all files that are not as they are on disk."""
        return frozenset((*self._files, *self._instruments))

    def __contains__(self, path: str) -> bool:
        real = os.path.realpath(path)
        return real in self._files or real in self._instruments

    def data(self, path: str) -> bytes:
        """The bytes of the file as the program is to see them."""
        patched = self._files.get(os.path.realpath(path))
        if patched is not None:
            return patched
        with open(path, "rb") as file:
            return file.read()

    def code(self, path: str) -> types.CodeType:
        """The compiled file, instrumented where asked; raises SyntaxError as Python would."""
        data = self.data(path)
        if path in self:
            self._quote(path, data)
        if os.path.realpath(path) not in self._instruments:
            return compile(data, path, "exec", dont_inherit=True)
        return compile(self.tree(path), path, "exec", dont_inherit=True)

    def tree(self, path: str) -> ast.Module:
        """The file, instrumented where asked, with as many statements as the text has."""
        data = self.data(path)
        tree = ast.parse(data, path)
        instruments = self._instruments.get(os.path.realpath(path))
        if not instruments:
            return tree
        rows = self._quote(path, data)
        instruments = [_in_bytes(item, rows) for item in instruments]
        return ast.fix_missing_locations(self._transform(tree, instruments))

    def _quote(self, path: str, data: bytes) -> list[str]:
        """Make tracebacks and `inspect` show this text (an entry without mtime is never stale)."""
        lines = iter(data.splitlines(keepends=True))
        encoding, _ = tokenize.detect_encoding(lambda: next(lines, b""))
        text = data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n")
        rows = text.splitlines(keepends=True) if "\f" not in text else _lines(text)
        linecache.cache[path] = (len(data), None, rows, path)
        return rows


def _in_bytes(item: Instrument, rows: Sequence[str]) -> Instrument:
    """The instrument with its column in UTF-8 bytes, as `ast` counts (ours count characters)."""
    if not (0 < item.line <= len(rows) and item.end_line <= len(rows)):
        return item
    first = len(rows[item.line - 1][: item.column].encode())
    last = len(rows[item.end_line - 1][: item.end_column].encode())
    return dataclasses.replace(item, column=first, end_column=last)


def _lines(text: str) -> list[str]:
    """Lines as Python counts them: only newlines end one (`str.splitlines` also cuts at \\f)."""
    return [line + "\n" for line in text.split("\n")]


class OverlayLoader(importlib.machinery.SourceFileLoader):
    """A source loader that asks the overlay and never a bytecode cache."""

    def __init__(self, fullname: str, path: str, overlay: Overlay) -> None:
        super().__init__(fullname, path)
        self._overlay = overlay

    def get_data(self, path: str) -> bytes:
        if path == self.path:
            return self._overlay.data(path)
        return super().get_data(path)

    def get_code(self, fullname: str) -> types.CodeType:
        return self._overlay.code(self.path)


class OverlayFinder(MetaPathFinder):
    """Finds modules where Python would, and swaps the loader for files that the overlay serves."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        added = self._added(fullname, path)
        if added is not None:
            return added
        hidden = False
        for finder in sys.meta_path:
            if finder is self:
                continue
            find = getattr(finder, "find_spec", None)
            spec: Any = find(fullname, path, target) if find else None
            if spec is None:
                continue
            if not self._overlay.hides(spec.origin or ""):
                return self.served(spec)
            if spec.submodule_search_locations:
                # Without its __init__.py, the folder is a package all the same.
                bare = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
                bare.submodule_search_locations = spec.submodule_search_locations
                return bare
            hidden = True
        if hidden:
            # Python would ask the same finders again.
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None

    def _added(
        self, fullname: str, path: Sequence[str] | None
    ) -> importlib.machinery.ModuleSpec | None:
        """A module whose file is not on disk."""
        if not self._overlay.has_added:
            return None
        name = fullname.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            package = os.path.join(folder or os.getcwd(), name)
            for file, inside in ((os.path.join(package, "__init__.py"), [package]),
                                 (f"{package}.py", None)):  # fmt: skip
                if self._overlay.adds(file):
                    loader = OverlayLoader(fullname, file, self._overlay)
                    return importlib.util.spec_from_file_location(
                        fullname, file, loader=loader, submodule_search_locations=inside
                    )
        return None

    def served(self, spec: importlib.machinery.ModuleSpec) -> importlib.machinery.ModuleSpec:
        """The spec with the overlay's loader if the overlay has its file, else as it is."""
        path = spec.origin or ""
        if spec.has_location and path.endswith((".py", ".pyw")) and path in self._overlay:
            spec.loader = OverlayLoader(spec.name, path, self._overlay)
            spec.cached = None
        return spec


def install(overlay: Overlay) -> None:
    """Put the overlay in front of Python's own finders."""
    sys.meta_path.insert(0, OverlayFinder(overlay))
