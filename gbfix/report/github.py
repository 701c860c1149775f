"""The report as workflow commands: annotations on the lines of a pull request."""

from __future__ import annotations

from pathlib import Path

from gbfix.patch import display_path
from gbfix.report import plain
from gbfix.schema import BreakReport, ErrorReport, Report


def render(report: Report, cwd: Path) -> str:
    """One ``::error`` or ``::warning`` line for each error and each graph break."""
    lines = [error_line(error, cwd) for error in report.errors]
    lines += [_break(found, cwd) for found in report.breaks]
    return "".join(f"{line}\n" for line in lines)


def _break(found: BreakReport, cwd: Path) -> str:
    cause = found.graph_break
    place: dict[str, str | int] = {}
    frame = cause.site or (cause.frames[-1] if cause.frames else None)
    if frame is not None:
        place = {"file": display_path(frame.path, cwd), "line": frame.line}
        # The runner takes columns only for annotations within one line.
        if frame.column is not None and frame.end_line in (None, frame.line):
            place["col"] = frame.column + 1
            if frame.end_column is not None:
                place["endColumn"] = frame.end_column
    text = plain.why(cause.explanation or cause.message or cause.gb_type)
    if found.status == "fixed":
        text += f" (gbfix has a fix: {found.codemod})"
    return command("warning", text, place, f"{cause.code} {cause.gb_type}".strip())


def error_line(error: ErrorReport, cwd: Path) -> str:
    place: dict[str, str | int] = {}
    if error.path:
        place["file"] = display_path(error.path, cwd)
        if error.line:
            place["line"] = error.line
    return command("error" if error.fatal else "warning", error.message, place, error.kind)


def command(kind: str, message: str, place: dict[str, str | int], title: str) -> str:
    """One workflow command, its text escaped as the runner wants it."""
    properties = ",".join(f"{k}={_property(str(v))}" for k, v in {**place, "title": title}.items())
    return f"::{kind} {properties}::{_data(' '.join(message.split()))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
