"""Notebooks as targets: the cells are run as one script, patches go back into the cells.

The script lies beside the notebook while gbfix runs, so that imports and paths mean the same.
Lines that only IPython understands are left out of it (``%time`` keeps what it times).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gbfix import engine
from gbfix.patch import header_path, unified_diff
from gbfix.schema import ErrorReport, Frame, GraphBreak, Options, Patch, Report, Target
from gbfix.source import SourceError, SourceFile, check_syntax

_MARK = "# %% [gbfix: cell "
_MARKED = re.compile(r"^# %% \[gbfix: cell (\d+)\]$")
_LEFT_OUT = "  # gbfix leaves out: "
_TIMED = "  # gbfix times not: "
_TIMES = re.compile(r"^(\s*)(%time(?:it)?\s+)(?!-)(\S.*)$")
_MAGIC = re.compile(r"^(\s*)([%!?].*|[\w.,\s]+=\s*[%!].*|[\w.]+\?{1,2}\s*)$")
#: Magics whose cell is Python all the same.
_STILL_PYTHON = re.compile(r"^%%(time|timeit|capture|prun)\b")
_PREAMBLE = "display = print  # as in a notebook\n"


@dataclasses.dataclass(frozen=True)
class Cell:
    """A code cell: its number among all cells (from 1), its text, and that of the script."""

    number: int
    text: str
    script: str


@dataclasses.dataclass(frozen=True)
class Notebook:
    """A notebook that was read, and how its file is laid out."""

    path: str
    text: str
    data: dict[str, Any]
    cells: tuple[Cell, ...]
    layout: tuple[int | str | None, bool, str]

    @property
    def script(self) -> str:
        shows = any("display(" in cell.script for cell in self.cells)
        # Nothing may stand before an import of the future.
        preamble = _PREAMBLE if shows and "__future__" not in self.cells[0].script else ""
        return preamble + "".join(f"{_MARK}{cell.number}]\n{cell.script}\n" for cell in self.cells)

    @property
    def left_out(self) -> list[str]:
        lines = [line for cell in self.cells for line in cell.script.split("\n")]
        return [line.partition(_LEFT_OUT)[2] for line in lines if _LEFT_OUT in line]


def read(path: str) -> Notebook:
    """Read a notebook; raises `SourceError` with the next step."""
    source = SourceFile.read(path)
    try:
        data = json.loads(source.text)
    except ValueError as error:
        step = "open it in Jupyter and save it again"
        raise SourceError(path, f"is no valid notebook: {error}", step) from None
    if not isinstance(data, dict) or data.get("nbformat") != 4:
        form = data.get("nbformat") if isinstance(data, dict) else None
        cause = f"is a notebook of format {form}" if form else "is no notebook"
        raise SourceError(path, cause, "convert it with `jupyter nbconvert --to notebook`")
    language = data.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    if language != "python":
        raise SourceError(path, f"is a notebook in {language}", "gbfix reads Python only")
    cells = tuple(
        Cell(number, text, _python(text))
        for number, cell in enumerate(data.get("cells", ()), 1)
        if cell.get("cell_type") == "code" and (text := _joined(cell.get("source", ""))).strip()
    )
    if not cells:
        raise SourceError(path, "has no code cell", "write one that calls what torch compiles")
    notebook = Notebook(path, source.text, data, cells, _layout(source.text, data))
    for cell in cells:
        try:
            check_syntax(cell.script, f"{path}, cell {cell.number}")
        except SourceError as error:
            step = "`await` outside of a function is not supported" if "await" in cell.text else ""
            raise SourceError(error.path, error.cause, step, line=error.line) from None
    return notebook


def _joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def _python(text: str) -> str:
    """A cell as Python, line by line; `_restored` undoes it."""
    lines = text.split("\n")
    if lines[0].startswith("%%"):
        if not _STILL_PYTHON.match(lines[0]):
            return "\n".join(_out(line, "") for line in lines)
        lines[0] = _out(lines[0], "")
    found = []
    inside = _inside_strings(lines)
    for number, line in enumerate(lines):
        timed = _TIMES.match(line)
        magic = _MAGIC.match(line)
        if number in inside or _LEFT_OUT in line:
            found.append(line)
        elif timed is not None:
            found.append(f"{timed[1]}{timed[3]}{_TIMED}{timed[2]}|")
        elif magic is not None:
            found.append(_out(line[len(magic[1]) :], magic[1]))
        else:
            found.append(line)
    return "\n".join(found)


def _out(line: str, indent: str) -> str:
    return f"{indent}pass{_LEFT_OUT}{line}"


def _inside_strings(lines: Sequence[str]) -> set[int]:
    """Numbers of lines that begin inside a string of several lines, or an open bracket."""
    inside: set[int] = set()
    text = ""
    for number, line in enumerate(lines):
        if text:
            inside.add(number)
        text += line + "\n"
        if not _is_open(text):
            text = ""
    return inside


def _is_open(text: str) -> bool:
    import io
    import tokenize

    try:
        for _ in tokenize.generate_tokens(io.StringIO(text).readline):
            pass
    except tokenize.TokenError:
        return True
    except (SyntaxError, IndentationError):
        return False
    return False


def _restored(script: str) -> str:
    """The text of a cell whose script this is."""
    lines = []
    for line in script.split("\n"):
        code, timed, rest = line.partition(_TIMED)
        if timed:
            body = code.lstrip()
            lines.append(code[: len(code) - len(body)] + rest.removesuffix("|") + body)
            continue
        code, out, rest = line.partition(_LEFT_OUT)
        lines.append(code.removesuffix("pass") + rest if out else line)
    return "\n".join(lines)


def _layout(text: str, data: dict[str, Any]) -> tuple[int | str | None, bool, str]:
    """How the file is written: indentation, whether only in ASCII, what ends it."""
    body = text.rstrip("\r\n")
    for indent in (1, 2, 4, "\t", 0, None):
        for ascii_only in (False, True):
            if json.dumps(data, indent=indent, ensure_ascii=ascii_only) == body:
                return indent, ascii_only, text[len(body) :]
    return 1, False, ""


def with_cells(notebook: Notebook, script: str) -> str | None:
    """The notebook's file with the cells of a patched script; None where that cannot be told."""
    texts = split(notebook, script)
    if texts is None or _written(notebook, notebook.data) != notebook.text:
        return None
    data: dict[str, Any] = json.loads(notebook.text)
    for number, text in texts.items():
        cell = data["cells"][number - 1]
        if _joined(cell["source"]) != text:
            as_lines = isinstance(cell["source"], list)
            cell["source"] = text.splitlines(keepends=True) if as_lines else text
    return _written(notebook, data)


def _written(notebook: Notebook, data: dict[str, Any]) -> str:
    indent, ascii_only, end = notebook.layout
    return json.dumps(data, indent=indent, ensure_ascii=ascii_only) + end


def split(notebook: Notebook, script: str) -> dict[int, str] | None:
    """The cells' texts out of a script, by number; what came before them goes to the first."""
    parts: dict[int, list[str]] = {}
    before: list[str] = []
    current = before
    for line in script.split("\n"):
        mark = _MARKED.match(line)
        if mark is None:
            current.append(line)
            continue
        current = parts.setdefault(int(mark[1]), [])
    if list(parts) != [cell.number for cell in notebook.cells]:
        return None
    head = [line for line in before if line + "\n" != _PREAMBLE]
    texts = {}
    for at, (number, lines) in enumerate(parts.items()):
        # The script ends with a newline of its own, behind the last cell.
        is_last = number == notebook.cells[-1].number
        body = lines[:-1] if is_last and lines and not lines[-1] else lines
        texts[number] = _restored("\n".join([*head, *body] if at == 0 else body))
    return texts


# -- running it ------------------------------------------------------------------------------------


def is_notebook(target: Target) -> bool:
    return target.kind == "script" and target.value.endswith(".ipynb")


def run(target: Target, options: Options, progress: Callable[[str], None]) -> Report:
    """The engine's report of a notebook, in terms of its cells."""
    path = os.path.join(target.cwd, target.value)
    try:
        notebook = read(path)
    except SourceError as error:
        report = Report(target.display)
        text = f"{error.cause}; {error.next_step}" if error.next_step else error.cause
        report.errors.append(ErrorReport("source", text, error.path, error.line))
        return report
    with _beside(path, notebook.script) as script:
        value = os.path.join(os.path.dirname(target.value), os.path.basename(script))
        as_script = dataclasses.replace(target, value=value)
        report = engine.run(as_script, options, progress)
        _put_back(report, notebook, script, target)
    if notebook.left_out:
        shown = ", ".join(f"`{line}`" for line in notebook.left_out[:3])
        more = len(notebook.left_out) - 3
        text = f"left out what only IPython understands: {shown}"
        text += f" and {more} more" if more > 0 else ""
        report.errors.append(ErrorReport("magic", text, path, fatal=False))
    return report


@contextlib.contextmanager
def _beside(path: str, script: str) -> Iterator[str]:
    digest = hashlib.sha256(script.encode()).hexdigest()[:8]
    made = Path(path).with_name(f".{Path(path).stem}-{digest}.gbfix.py").absolute()
    try:
        made.write_text(script, encoding="utf-8")
    except OSError as error:
        cause = f"its folder cannot be written: {error.strerror}"
        raise SourceError(path, cause, "copy the notebook to a folder of your own") from None
    try:
        yield str(made)
    finally:
        made.unlink(missing_ok=True)


def _put_back(report: Report, notebook: Notebook, script: str, target: Target) -> None:
    places = _Places(notebook, script)
    report.target = target.display
    for region in report.regions:
        region.path, region.line = places.of(region.path, region.line)
        region.compile_path, region.compile_line = places.of(
            region.compile_path, region.compile_line
        )
    for found in report.breaks:
        found.graph_break = places.broken(found.graph_break)
    for error in report.errors:
        where, line = places.of(error.path, error.line)
        at = report.errors.index(error)
        text = error.message.replace(script, notebook.path)
        trace = error.traceback.replace(script, notebook.path)
        report.errors[at] = dataclasses.replace(
            error, path=where, line=line, message=text, traceback=trace
        )
    report.files = tuple(notebook.path if path == script else path for path in report.files)
    for patches in (report.patches, report.unsafe_patches):
        patches[:] = [_patch(one, notebook, script, target, report) for one in patches]


def _patch(one: Patch, notebook: Notebook, script: str, target: Target, report: Report) -> Patch:
    """A patch of the script as one of the notebook."""
    if os.path.realpath(one.path) != os.path.realpath(script):
        return one
    before, after = split(notebook, one.before), split(notebook, one.after)
    whole = with_cells(notebook, one.after)
    shown = header_path(notebook.path, target.cwd)
    if before is None or after is None:
        return one
    diff = "".join(
        unified_diff(_ended(before[number]), _ended(after[number]), f"{shown} (cell {number})")
        for number in after
    )
    if whole is None:
        text = "is laid out in a way of its own: save it in Jupyter before --apply"
        report.errors.append(ErrorReport("notebook", text, notebook.path, fatal=False))
        whole = notebook.text
    return dataclasses.replace(
        one, path=notebook.path, diff=diff, before=notebook.text, after=whole
    )


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


class _Places:
    """Lines of the script as lines of cells."""

    def __init__(self, notebook: Notebook, script: str) -> None:
        self._path = notebook.path
        self._script = os.path.realpath(script)
        self._starts = [
            (at, int(mark[1]))
            for at, line in enumerate(notebook.script.split("\n"), 1)
            if (mark := _MARKED.match(line)) is not None
        ]

    def of(self, path: str, line: int) -> tuple[str, int]:
        if not path or os.path.realpath(path) != self._script:
            return path, line
        start, number = 0, 0
        for at, cell in self._starts:
            if at < line:
                start, number = at, cell
        return (f"{self._path} (cell {number})" if number else self._path), line - start

    def frame(self, frame: Frame) -> Frame:
        path, line = self.of(frame.path, frame.line)
        moved = line - frame.line
        end = frame.end_line + moved if frame.end_line is not None else None
        return dataclasses.replace(frame, path=path, line=line, end_line=end)

    def broken(self, found: GraphBreak) -> GraphBreak:
        file, _, name = found.region.rpartition("::")
        region = found.region
        if file and os.path.realpath(file) == self._script:
            region = f"{self._path}::{name}"
        return dataclasses.replace(
            found,
            region=region,
            frames=tuple(map(self.frame, found.frames)),
            site=self.frame(found.site) if found.site is not None else None,
        )
