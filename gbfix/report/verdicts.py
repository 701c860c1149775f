"""What `gbfix verify` found, for people and for programs."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from gbfix.patch import display_path
from gbfix.report import github, plain, sarif
from gbfix.report.json import error_dict, verdict_dict
from gbfix.schema import Asked, GraphBreak
from gbfix.verification import RegionVerdict, Verification

_STYLES = {
    "same": "dim",
    "safe": "green",
    "still breaks": "yellow",
    "unsafe": "yellow",
    "unmatched": "yellow",
    "wrong": "bold red",
    "error": "bold red",
}
_MOST = 3  # reasons and breaks that are shown without -v
_SARIF_LEVELS = {"wrong": "error", "error": "error", "unsafe": "warning", "unmatched": "warning"}

FORMATS = ("text", "json", "sarif", "github", "markdown")


def render(found: Verification, style: str, cwd: Path, *, allow_breaks: bool = False) -> str:
    """The verdict in one of the formats for programs."""
    if style == "json":
        return json.dumps(as_dict(found, allow_breaks=allow_breaks), indent=2) + "\n"
    if style == "sarif":
        return sarif_of([found], cwd)
    if style == "github":
        return _github(found, cwd)
    return markdown(found, cwd)


def headline(found: Verification) -> str:
    """The one sentence that says what came out."""
    status = found.status
    parts = [part for part in found.parts if part.status == status]
    names = _names(parts)
    regions = plain.count(len(found.regions), "region")
    if status == "error":
        return "The change could not be judged."
    if status == "same":
        if not found.files:
            return f"Nothing that is Python changed against {found.against}."
        return "Nothing that this program runs changed."
    if status == "safe":
        return f"The change is safe for {regions}: no input that was tried tells the difference."
    if status == "still breaks":
        return f"The change is right, and {names} still breaks the graph."
    if status == "unsafe":
        return f"The change is unsafe: {_first(parts)} ({names})."
    if status == "wrong" and found.program is not None and found.program.status == "wrong":
        return f"The change is wrong: {plain.difference(found.program.reasons[0])}."
    if status == "unmatched":
        return f"The change could not be compared for {names}; the rest holds."
    return f"The change is wrong: {names} {_first(parts)}."


def as_dict(found: Verification, *, allow_breaks: bool = False) -> dict[str, Any]:
    """The verdict as plain dicts and lists; keys are added, never renamed."""
    return {
        "version": 1,
        "gbfix": found.gbfix_version,
        "torch": found.torch_version,
        "target": found.target,
        "against": found.against,
        "status": found.status,
        "exit_status": found.exit_status(allow_breaks=allow_breaks),
        "summary": headline(found),
        "seconds": round(found.seconds, 3),
        "files": [{"path": path, "change": kind} for path, kind in found.files],
        "regions": [_part(part) for part in found.regions],
        "program": _part(found.program) if found.program else None,
        "limits": list(found.limits),
        "counterexample": _counterexample(found),
        "errors": [error_dict(error) for error in found.errors],
    }


def _counterexample(found: Verification) -> dict[str, Any] | None:
    witness = found.witness
    if witness is None:
        return None
    return {
        "region": witness.region,
        "call": witness.index,
        "inputs": witness.inputs or None,
        "inputs_in_words": plain.inputs(witness.inputs),
        "rung": witness.rung,
        "difference": witness.text,
        "folder": found.counterexample or None,
        "reproduced": found.reproduced,
    }


def _part(part: RegionVerdict) -> dict[str, Any]:
    return {
        "name": part.name,
        "path": part.path,
        "line": part.line,
        "status": part.status,
        "reasons": _reasons(part),
        "was": part.was or None,
        "note": part.note,
        "breaks_before": part.breaks_before,
        "breaks_after": part.breaks_after,
        "graphs_before": part.graphs_before,
        "graphs_after": part.graphs_after,
        "breaks": [_break(item) for item in part.breaks],
        "verdict": verdict_dict(part.verdict),
    }


def _break(found: GraphBreak) -> dict[str, Any]:
    frame = found.site or (found.frames[-1] if found.frames else None)
    return {
        "code": found.code,
        "gb_type": found.gb_type,
        "path": frame.path if frame else "",
        "line": frame.line if frame else 0,
        "explanation": found.explanation or found.message,
    }


# -- people ----------------------------------------------------------------------------------------


def show(found: Verification, out: TextIO, cwd: Path, *, verbose: int, quiet: bool) -> None:
    """Print the verdict: a line a region, what is wrong under it, and what to do next."""
    width = None if out.isatty() else 120
    console = Console(file=out, width=width, markup=False, highlight=False, emoji=False)
    for error in found.errors:
        word, style = ("error", "bold red") if error.fatal else ("warning", "bold yellow")
        where = f"{display_path(error.path, cwd)}:{error.line}: " if error.path else ""
        _line(console, Text.assemble((f"{word}: ", style), where, error.message))
    if not quiet:
        _heading(console, found)
    for part in found.parts:
        if quiet and part.status in ("same", "safe"):
            continue
        _region(console, part, cwd, verbose)
    for text in found.limits if not quiet else ():
        _field(console, "limit", text)
    if found.counterexample:
        said = {
            True: "shows the difference",
            False: "does not show it alone: it takes the calls that came before",
            None: "could not be run here",
        }[found.reproduced]
        script = os.path.join(display_path(found.counterexample, cwd), "show.py")
        _field(console, "counterexample", f"`python {script}` {said}")
    status = found.status
    _prose(console, headline(found), f"bold {_STYLES[status].replace('bold ', '')}")
    for text in next_steps(found):
        _line(console, Text(f"  {text}"))


def next_steps(found: Verification) -> list[str]:
    """What a person does now."""
    status = found.status
    if status == "wrong" and not found.counterexample and found.witness is not None:
        return ["To see it: add --save-counterexample DIR, then run DIR/show.py."]
    if status == "still breaks":
        codes = sorted({item.code for part in found.parts for item in part.breaks})
        return [f"What the breaks mean: gbfix explain {' '.join(codes[:3])}",
                f"Fixes for them: {(found.asked or Asked(found.target)).command()}"]  # fmt: skip
    if status == "unsafe":
        return ["Read the reasons: if none of them can happen to your callers, the change holds."]
    return []


def _heading(console: Console, found: Verification) -> None:
    names = ", ".join(path for path, _ in found.files[:4])
    more = f" and {len(found.files) - 4} more" if len(found.files) > 4 else ""
    files = plain.count(len(found.files), "changed file")
    listed = f": {names}{more}" if names else ""
    _line(console, Text(f"{found.target} against {found.against}, {files}{listed}", "bold"))


def _region(console: Console, part: RegionVerdict, cwd: Path, verbose: int) -> None:
    head = Text.assemble(
        (f"{plain.STATUSES[part.status]:14}", _STYLES[part.status]), " ", (part.name, "bold")
    )
    if part.path:
        head.append(f"  {display_path(part.path, cwd)}:{part.line}")
    counts = _counts(part)
    if counts and (not console.is_terminal or head.cell_len + 2 + len(counts) <= console.width):
        head.append(f"  {counts}")
        counts = ""
    _line(console, head)
    if counts:
        _line(console, Text(f"    {counts}"))
    if part.was:
        path, _, name = part.was.partition("::")
        _field(console, "was", f"{name} in {display_path(path, cwd)}")
    if part.note:
        _field(console, "note", part.note)
    reasons = _reasons(part)
    shown = reasons if verbose else reasons[:_MOST]
    for reason in shown:
        _field(console, "because", reason)
    if len(reasons) > len(shown):
        _field(console, "because", f"and {len(reasons) - len(shown)} more (-v shows them)")
    if part.witness is not None and part.witness.inputs:
        words = f"{plain.inputs(part.witness.inputs)} (call {part.witness.index + 1})"
        _field(console, "input", words)
    for item in part.breaks if verbose else part.breaks[:_MOST]:
        frame = item.site or (item.frames[-1] if item.frames else None)
        where = f"{display_path(frame.path, cwd)}:{frame.line} " if frame else ""
        _field(console, "break", f"{where}{item.code} {item.gb_type}")
    for text in part.verdict.limits if part.status not in ("wrong", "error") else ():
        _field(console, "limit", text)
    if not verbose:
        return
    for rung in part.verdict.rungs:
        word = {True: "passed", False: "FAILED", None: "not run"}[rung.passed]
        detail = f"  {plain.difference(rung.detail)}" if rung.detail else ""
        _line(console, Text(f"    {word:8} {rung.name}{detail}", "dim"))


def _counts(part: RegionVerdict) -> str:
    if part.breaks_before is None and part.breaks_after is None:
        return ""
    breaks = plain.change(part.breaks_before, part.breaks_after)
    return f"breaks {breaks}, graphs {plain.change(part.graphs_before, part.graphs_after)}"


def _reasons(part: RegionVerdict) -> list[str]:
    """In plain words, each once."""
    return list(dict.fromkeys(plain.difference(text) for text in part.reasons))


def _field(console: Console, name: str, text: str) -> None:
    width = max(min(console.width, 100) - len(name) - 6, 30)
    lines = textwrap.wrap(
        " ".join(text.split()), width, break_long_words=False, break_on_hyphens=False
    )
    for number, line in enumerate(lines):
        head = f"    {name}: " if number == 0 else " " * (len(name) + 6)
        _line(console, Text.assemble((head, "cyan"), line))


def _prose(console: Console, text: str, style: str) -> None:
    """A sentence: one line in a pipe, and in a terminal as many as it takes."""
    lines = [text]
    if console.is_terminal:
        width = max(console.width, 40)
        lines = textwrap.wrap(
            text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    for line in lines:
        _line(console, Text(line, style))


def _line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True, highlight=False)


def _names(parts: list[RegionVerdict]) -> str:
    names = [part.name for part in parts]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _first(parts: list[RegionVerdict]) -> str:
    part = parts[0]
    reason = plain.difference(part.reasons[0]) if part.reasons else ""
    if part.status == "wrong":
        return f"does something else: {reason}"
    return reason


# -- programs --------------------------------------------------------------------------------------


def markdown(found: Verification, cwd: Path) -> str:
    """A comment for a pull request."""
    sign = {"same": "✅", "safe": "✅", "wrong": "❌", "error": "❌"}.get(found.status, "⚠️")
    lines = [f"### {sign} gbfix verify: {_md(headline(found))}", ""]
    lines.append(f"`{found.target}` against `{found.against}`, torch {found.torch_version}")
    if found.parts:
        lines += ["", "| verdict | region | breaks | graphs | why |", "|---|---|---|---|---|"]
    for part in found.parts:
        place = f" `{display_path(part.path, cwd)}:{part.line}`" if part.path else ""
        reasons = _reasons(part)[:_MOST]
        reasons += [f"still breaks: {item.code} {item.gb_type}" for item in part.breaks[:_MOST]]
        lines.append(
            f"| **{plain.STATUSES[part.status]}** | `{part.name}`{place} "
            f"| {plain.change(part.breaks_before, part.breaks_after)} "
            f"| {plain.change(part.graphs_before, part.graphs_after)} "
            f"| {'<br>'.join(map(_md, reasons)) or _md(part.note)} |"
        )
    if found.limits:
        lines += ["", "Not covered:", *(f"- {_md(text)}" for text in found.limits)]
    for error in found.errors:
        lines += ["", f"**{error.kind}**: {_md(error.message)}"]
    return "\n".join(lines) + "\n"


def _md(text: str) -> str:
    for sign in ("|", "<", ">", "*", "_"):
        text = text.replace(
            sign, f"\\{sign}" if sign in "|*_" else f"&{'lt' if sign == '<' else 'gt'};"
        )
    return " ".join(text.split())


def _github(found: Verification, cwd: Path) -> str:
    lines = [github.error_line(error, cwd) for error in found.errors]
    for part in found.parts:
        if part.status in ("same", "safe"):
            continue
        kind = "error" if part.status in ("wrong", "error") else "warning"
        place: dict[str, str | int] = {}
        if part.path:
            place = {"file": display_path(part.path, cwd), "line": part.line}
        reasons = _reasons(part)[:_MOST]
        reasons += [f"{item.code} {item.gb_type}" for item in part.breaks[:_MOST]]
        text = "; ".join(reasons) or part.note
        title = f"gbfix verify: {part.name} {plain.STATUSES[part.status]}"
        lines.append(github.command(kind, text, place, title))
    lines.append(github.command("notice", headline(found), {}, "gbfix verify"))
    return "".join(f"{line}\n" for line in lines)


def _sarif(found: Verification, cwd: Path) -> dict[str, Any]:
    rules = [
        {"id": f"verify-{name.replace(' ', '-')}", "shortDescription": {"text": text}}
        for name, text in (
            ("wrong", "The change does something else than the original"),
            ("unsafe", "The change holds for what was tried; a caller could tell the two apart"),
            ("still breaks", "The region is still not one graph"),
            ("unmatched", "No region of the changed program corresponds to one of the original"),
            ("error", "The change could not be judged"),
        )
    ]  # fmt: skip
    results = []
    for part in found.parts:
        if part.status in ("same", "safe"):
            continue
        reasons = _reasons(part)
        reasons += [f"{item.code} {item.gb_type}" for item in part.breaks]
        result: dict[str, Any] = {
            "ruleId": f"verify-{part.status.replace(' ', '-')}",
            "level": _SARIF_LEVELS.get(part.status, "note"),
            "message": {"text": f"{part.name}: " + ("; ".join(reasons) or part.note)},
        }
        if part.path:
            result["locations"] = [sarif.location(part.path, cwd, {"startLine": max(part.line, 1)})]
        results.append(result)
    return sarif.log(rules, results, found.gbfix_version, found.errors, cwd)


def sarif_of(found: Sequence[Verification], cwd: Path) -> str:
    """One log with a run for each target."""
    logs = [_sarif(one, cwd) for one in found]
    runs = [run for log in logs for run in log["runs"]]
    return json.dumps({**logs[0], "runs": runs}, indent=2) + "\n"
