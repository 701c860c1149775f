"""What the server knows for one client: texts, settings, hints, reports.  No protocol here."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from gbfix import arguments, cache, changes, config, registry
from gbfix.changes import Change
from gbfix.ignores import ignored
from gbfix.lsp.documents import Document, Documents
from gbfix.lsp.hints import Hint, Memory, hints
from gbfix.lsp.index import Index, Root
from gbfix.lsp.measured import Measured, Results, State, place_of
from gbfix.lsp.settings import Settings
from gbfix.lsp.syntax import Parsed
from gbfix.schema import BreakReport, Options, Span, Target
from gbfix.source import SourceError, SourceFile, project_root
from gbfix.words import split

#: Texts longer than this get no hints: typing would wait for them.
MAX_LENGTH = 1_000_000


@dataclasses.dataclass(frozen=True)
class Placed:
    """A measured break where it stands in a document now."""

    found: BreakReport
    measured: Measured
    state: State
    span: Span


class Session:
    """One client's world."""

    def __init__(self) -> None:
        self.documents = Documents()
        self.settings = Settings()
        self.index = Index()
        self.results = Results()
        self.folders: list[str] = []
        #: Counts everything that can change what is told about any document.
        self.generation = 0
        #: By URI, the last text of a document that was valid Python.
        self._parsed: dict[str, Parsed] = {}
        self._memories: dict[str, Memory] = {}
        self._disk: dict[str, tuple[tuple[int, int], str | None]] = {}

    def set_folders(self, folders: list[str]) -> None:
        self.folders = folders
        self.index.set_roots(folders)

    # -- texts -------------------------------------------------------------------------------

    def opened(self, document: Document) -> None:
        """Take up a document's new text."""
        self.generation += 1
        if document.path is None:
            return
        text = document.text.text
        if len(text) > MAX_LENGTH:
            return
        parsed = self._parsed.get(document.uri)
        if parsed is None or not parsed.edit(text):
            parsed = Parsed.of(text)
        # A text that does not parse, as while somebody types, leaves what was known.
        if parsed is not None:
            self._parsed[document.uri] = parsed
            self.index.put(document.path, parsed)

    def closed(self, uri: str, path: str | None) -> None:
        self.generation += 1
        self._parsed.pop(uri, None)
        self._memories.pop(uri, None)
        if path is not None:
            self.index.drop(path)

    def current(self, path: str) -> str | None:
        """The present text of a file: the editor's, else the disk's; None when there is none."""
        document = self.documents.by_path(path)
        return document.text.text if document is not None else self.on_disk(path)

    def on_disk(self, path: str) -> str | None:
        try:
            stat = os.stat(path)
        except OSError:
            return None
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = self._disk.get(path)
        if known is None or known[0] != stamp:
            try:
                text: str | None = SourceFile.read(path).text
            except SourceError:
                text = None
            known = self._disk[path] = (stamp, text)
        return known[1]

    def dirty(self) -> list[str]:
        """Open files with changes that a run would not see."""
        return [
            document.path
            for document in self.documents
            if document.path is not None
            and document.path.endswith(".py")
            and self.on_disk(document.path) != document.text.text
        ]

    # -- what is known of a document ---------------------------------------------------------

    def hints(self, document: Document) -> list[Hint]:
        """Likely breaks, without those in regions that a run has spoken of."""
        if document.path is None or not self.settings.hints:
            return []
        parsed, text = self._parsed.get(document.uri), document.text.text
        if parsed is None or parsed.text != text:
            return []
        lines = [document.text.line(number) for number in range(document.text.line_count)]
        found = hints(
            document.path,
            parsed,
            lines,
            self.index,
            self._memories.setdefault(document.uri, Memory()),
        )
        known = list(self.placed(document))
        return [
            hint
            for hint in found
            if not ignored(text, hint.span.line, hint.code)
            and not self._superseded(hint, document.path, known)
        ]

    def placed(self, document: Document) -> Iterator[Placed]:
        """Measured breaks, each once, with their places of now."""
        if document.path is None:
            return
        seen: set[tuple[str, Span]] = set()
        path = self.path_in_reports(document)
        for measured in self.results.about(path):
            applied = measured.applied(self.current)
            for found in measured.report.breaks:
                frame = place_of(found)
                if frame is None or frame.path != path or measured.is_gone(found, applied):
                    continue
                state = measured.state(path, frame.line, self.current)
                line = measured.line_now(path, frame.line, self.current)
                if line is None:
                    # The very line was edited: shown at the line that stands there now.
                    line = min(frame.line, document.text.line_count)
                    span = _line_span(document, line)
                elif frame.column is None or frame.end_column is None:
                    span = _line_span(document, line)
                else:
                    end = line + (frame.end_line - frame.line if frame.end_line else 0)
                    span = Span(line, frame.column, end, frame.end_column)
                if (found.graph_break.code, span) not in seen:
                    seen.add((found.graph_break.code, span))
                    yield Placed(found, measured, state, span)

    def path_in_reports(self, document: Document) -> str:
        """The document's path as reports spell it (links resolved where that is needed)."""
        path = document.path or ""
        if self.results.about(path):
            return path
        return os.path.realpath(path)

    def _superseded(self, hint: Hint, path: str, known: list[Placed]) -> bool:
        for placed in known:
            if placed.span.line == hint.span.line and placed.found.graph_break.code == hint.code:
                return True
        measured = self.measured_region(hint.root)
        if measured is None:
            return False
        line = measured.line_then(path, hint.span.line, self.current)
        return line is not None and measured.state(path, line, self.current) is not State.STALE

    def measured_region(self, root: Root) -> Measured | None:
        """The newest report in which a region was called."""
        names = {root.qualname, root.qualname.removesuffix(".forward")}
        for measured in self.results.about(root.path):
            for region in measured.report.regions:
                if region.path == root.path and region.name in names and region.calls:
                    return measured
        return None

    # -- runs --------------------------------------------------------------------------------

    def options(self, path: str) -> Options:
        """The options of a run, as the command line would have them.  Raises `GbfixError`."""
        return arguments.options({}, config.load(Path(path).parent).options)

    def targets(self, path: str) -> list[Target]:
        """What to run for a file: the client's targets, the project's, else the file itself.

        Among several targets, those that a file is, or that are known to load it.
        Raises `GbfixError`.
        """
        folder = self.folder_of(path)
        if self.settings.targets:
            every = [
                arguments.target(split(shlex.split(words), {}), None, folder)
                for words in self.settings.targets
            ]
        else:
            every = arguments.configured_targets(config.load(Path(path).parent))
        if not every:
            return [Target("script", os.path.relpath(path, folder), cwd=folder)]
        own = [item for item in every if arguments.file_of(item) == Path(path)]
        loading = [
            item
            for item in every
            if (known := self.results.get(item)) is not None and known.speaks_of(path)
        ]
        return own or loading or every

    def change(self, path: str) -> Change:
        """What differs from the last commit, with what is typed and not saved yet.

        Raises `GbfixError`.
        """
        found = changes.against_revision("HEAD", Path(path).parent)
        before = {item.path: item.before for item in found.files}
        texts = {item.path: item for item in found.files}
        for name in self.dirty():
            document = self.documents.by_path(name)
            real = os.path.realpath(name)
            if document is None:
                continue
            saved = SourceFile.read(name) if os.path.exists(name) else None
            new = document.text.text
            after = saved.encode(new) if saved is not None else new.encode()
            known = before.get(real, saved.data if saved else None)
            texts[real] = changes.ChangedFile(real, known, after)
        files = tuple(item for item in texts.values() if item.before != item.after)
        return dataclasses.replace(found, files=files)

    def folder_of(self, path: str) -> str:
        """The workspace folder of a file, the innermost; its project where it is in none."""
        inside = [f for f in self.folders if os.path.commonpath([f, path]) == f]
        return max(inside, key=len) if inside else str(project_root(path))

    def recall(self, path: str) -> bool:
        """Take up what earlier runs, of the command line too, left in the cache.  Runs nothing."""
        version = registry.torch_version()
        found = False
        try:
            options = self.options(path)
            targets = self.targets(path)
        except Exception:
            return False  # what is wrong with the configuration is told when somebody runs
        for target in targets:
            if self.results.get(target) is not None:
                continue
            report = cache.load(target, options, version)
            if report is not None:
                self.results.add(Measured.of(target, report))
                found = True
        return found


def _line_span(document: Document, line: int) -> Span:
    text = document.text.line(line - 1)
    start = len(text) - len(text.lstrip())
    return Span(line, start, line, max(len(text.rstrip()), start))
