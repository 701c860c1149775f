"""``gbfix scan``: likely graph breaks of whole trees, from the text alone.

The language server's hints (`gbfix.lsp.hints`), without an editor.  Nothing is run or imported.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import glob
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import gbfix
from gbfix import ignores, registry
from gbfix.lsp.hints import Hint, hints
from gbfix.lsp.index import Index, python_files
from gbfix.lsp.syntax import Parsed
from gbfix.patch import display_path
from gbfix.report import github, sarif
from gbfix.schema import BreakReport, Frame, GraphBreak, Report
from gbfix.source import SourceError, SourceFile, check_syntax, project_root
from gbfix.words import ArgumentError

GUESSES = "These are guesses from the text: `gbfix --check` runs a program and tells what breaks."


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What is looked for, and where it is not."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, code: str) -> bool:
        return code not in self.ignore and (not self.select or code in self.select)

    def leaves_out(self, path: str, cwd: Path) -> bool:
        shown = display_path(path, cwd)
        return any(
            fnmatch.fnmatch(shown, item) or f"/{shown}".find(f"/{item.rstrip('/')}/") >= 0
            for item in self.exclude
        )


@dataclasses.dataclass(frozen=True)
class Found:
    """Hints by file, in the order of the files; what could not be read, in words."""

    hints: tuple[tuple[str, Hint], ...]
    files: int
    regions: int
    problems: tuple[str, ...] = ()


def scan(paths: Sequence[str], cwd: Path, wanted: Wanted = Wanted()) -> Found:
    """The hints of all Python files below the paths; raises `ArgumentError` for none."""
    files = [path for path in _files(paths, cwd) if not wanted.leaves_out(path, cwd)]
    index = Index()
    # A region may be compiled in another file of the project than the ones that are asked about.
    roots = {str(project_root(path)) for path in files} | {os.path.dirname(path) for path in files}
    index.set_roots(sorted(roots, key=len))
    texts: dict[str, tuple[Parsed, str]] = {}
    problems = []
    for path in files:
        try:
            text = SourceFile.read(path).text
            check_syntax(text, path)
        except SourceError as error:
            problems.append(str(error).splitlines()[0])
            continue
        parsed = Parsed.of(text)
        if parsed is not None:
            texts[path] = (parsed, text)
            index.put(path, parsed)
    for root in {str(project_root(path)) for path in files}:
        if any(os.path.exists(os.path.join(root, name)) for name in _PROJECT):
            index.add_candidates(root)
    found: list[tuple[str, Hint]] = []
    for path, (parsed, text) in texts.items():
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        found += [
            (path, hint)
            for hint in hints(path, parsed, lines, index)
            if wanted.takes(hint.code) and not ignores.ignored(text, hint.span.line, hint.code)
        ]
    regions = {entry.root for entry in index.reached().values()}
    return Found(tuple(found), len(texts), len(regions), tuple(problems))


_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")


def _files(paths: Sequence[str], cwd: Path) -> list[str]:
    """The Python files that the words name, each once, in the order of the words."""
    found: dict[str, None] = {}
    for word in paths:
        matches = [word] if os.path.exists(cwd / word) else sorted(
            glob.glob(word, root_dir=cwd, recursive=True)
        )  # fmt: skip
        if not matches:
            raise ArgumentError(f"scan {word}: no such file or folder; check the path")
        here = list(_below(matches, cwd))
        if not here:
            raise ArgumentError(f"scan {word}: holds no Python file (.py)")
        found.update(dict.fromkeys(here))
    return list(found)


def _below(matches: Sequence[str], cwd: Path) -> Iterator[str]:
    for name in matches:
        path = os.path.abspath(cwd / name)
        if os.path.isdir(path):
            yield from python_files(path)
        elif path.endswith(".py"):
            yield path


def render(found: Found, style: str, cwd: Path) -> str:
    """All that was found, in one of the formats of a run."""
    if style == "text":
        return _text(found, cwd)
    if style == "json":
        return _json(found)
    report = Report("", "", gbfix.__version__)
    report.breaks = [
        BreakReport(_as_break(path, hint), url=_url(hint)) for path, hint in found.hints
    ]
    return sarif.render(report, cwd) if style == "sarif" else github.render(report, cwd)


def _text(found: Found, cwd: Path) -> str:
    lines = []
    for path, hint in found.hints:
        place = f"{display_path(path, cwd)}:{hint.span.line}:{hint.span.column + 1}"
        lines.append(f"{place}: {hint.code} {hint.reason} (in region {hint.region(path)})")
    count = len(found.hints)
    what = "1 likely graph break" if count == 1 else f"{count} likely graph breaks"
    files = "1 file" if found.files == 1 else f"{found.files} files"
    regions = "1 compiled region" if found.regions == 1 else f"{found.regions} compiled regions"
    lines.append(f"{what} in {files}, {regions}. {GUESSES}")
    return "\n".join(lines) + "\n"


def _json(found: Found) -> str:
    items = [
        {
            "code": hint.code,
            "path": path,
            "line": hint.span.line,
            "column": hint.span.column,
            "end_line": hint.span.end_line,
            "end_column": hint.span.end_column,
            "function": hint.function,
            "region": hint.region(path),
            "reason": hint.reason,
            "url": _url(hint),
        }
        for path, hint in found.hints
    ]
    data = {
        "version": 1,
        "gbfix": gbfix.__version__,
        "guesses": True,
        "note": GUESSES,
        "files": found.files,
        "regions": found.regions,
        "hints": items,
        "problems": list(found.problems),
    }
    return json.dumps(data, indent=2) + "\n"


def _url(hint: Hint) -> str:
    return registry.Registry.load().url(hint.code)


def _as_break(path: str, hint: Hint) -> GraphBreak:
    span = hint.span
    frame = Frame(path, span.line, hint.function, span.column, span.end_line, span.end_column)
    title = registry.Registry.load().title(hint.code) or hint.code
    text = f"a guess from the text: {hint.reason}"
    return GraphBreak(hint.code, title, text, "", (), (frame,), hint.region(path), frame)
