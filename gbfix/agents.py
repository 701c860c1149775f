"""`gbfix mcp`: find, explain, propose and verify, for coding agents.

Answers are plain objects of bounded size: a model reads all of what it is given.  Nothing is
written to the project; the target's program is run, as `gbfix` runs it.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gbfix import GbfixError, arguments, config, words
from gbfix.schema import BreakReport, Options, Patch, Report, Target

#: Characters of an answer as JSON, and of one text in it.
MOST = 24_000
_MOST_TEXT = 6_000
_MOST_ITEMS = 40

INSTRUCTIONS = """\
gbfix finds what keeps torch.compile from making one graph of a function, and judges patches.
Work in this order: `find` the breaks of a target; `propose` gives patches that were proven by
running; where there is none, `explain` the code and write a change yourself; then `verify` what you
wrote before you say that it works. A verdict of "wrong" comes with the inputs that show it. Never
report a change as right that `verify` has not called safe; tell the user what an "unsafe" one's
reasons and the limits are."""


def find(target: str, folder: str = "", inputs: str = "", timeout: float = 300.0) -> dict[str, Any]:
    """Run a program and list its graph breaks: where, why, in which compiled region.

    target: what follows `gbfix` on a command line: `train.py --steps 2`, `-m package.module`, or
    `model.py::Net` with inputs, a Python expression such as "(torch.randn(4, 8),)".
    folder: the absolute path of the project (the server's own folder by default).
    """
    report = _run(target, folder, inputs, Options(check_only=True, timeout=timeout))
    return _bounded(found_dict(report))


def found_dict(report: Report) -> dict[str, Any]:
    """What `find` answers: breaks of a run that looked for no fixes, and says so."""
    told = _summary(report, looked=False)
    if report.breaks:
        told["summary"] += " No fixes were looked for: `propose` does that."
    return {**told, "breaks": [_break(item) for item in report.breaks]}


def explain(codes: list[str]) -> dict[str, Any]:
    """Say what graph break codes (GB0170) or families mean, and what to do about each by hand."""
    from gbfix.report import explain as explaining

    found = {}
    for code in codes[:10]:
        try:
            found[code] = explaining.explain_text(code)
        except GbfixError as error:
            found[code] = str(error)
    return _bounded({"explanations": found})


def propose(
    target: str,
    folder: str = "",
    inputs: str = "",
    unsafe: bool = False,
    select: list[str] | None = None,
    timeout: float = 300.0,
) -> dict[str, Any]:
    """Patches for the graph breaks of a program, each proven by running: diffs with their verdict.

    Nothing is written: apply a diff with `git apply`, or run `gbfix --apply` with the same target.
    unsafe: take patches in, too, that a caller could tell from the original (reasons are given).
    select: only these codes or codemods.
    """
    options = Options(
        unsafe_fixes=unsafe,
        timeout=timeout,
        inductor=True,
        select=arguments.selection("select", select or ()),
    )
    report = _run(target, folder, inputs, options)
    return _bounded(
        {
            **_summary(report),
            "patches": [_patch(item) for item in report.patches],
            "unsafe_patches": [_patch(item) for item in report.unsafe_patches],
            "left": [_break(item) for item in report.breaks if item.status != "fixed"],
        }
    )


def verify(
    target: str,
    folder: str = "",
    inputs: str = "",
    against: str = "HEAD",
    patch: str = "",
    save_counterexample: str = "",
    timeout: float = 300.0,
) -> dict[str, Any]:
    """Judge a change that was made by hand: safe, unsafe, wrong, or still breaks, for each region.

    Compares the files as they are with a git revision or an older copy of the project (against),
    or judges a unified diff on top of them (patch), which is not written.
    save_counterexample: a folder for the inputs and a script that show a wrong change.
    """
    from gbfix import changes, tasks
    from gbfix.report import verdicts
    from gbfix.verify import change_for

    wanted, cwd = _target(target, folder, inputs)
    data = patch.encode()
    change: changes.Change = change_for(
        wanted, None if patch else against, "the patch" if patch else None, data, cwd
    )
    save = Path(cwd, save_counterexample) if save_counterexample else None
    with _one_at_a_time:
        found = tasks.judge(wanted, _with_config(Options(timeout=timeout, inductor=True), cwd),
                            change, save)  # fmt: skip
    told = verdicts.as_dict(found)
    for part in (*told["regions"], *([told["program"]] if told["program"] else [])):
        part["verdict"] = _rungs(part["verdict"])
    return _bounded(told)


TOOLS: tuple[Callable[..., dict[str, Any]], ...] = (find, explain, propose, verify)


def serve() -> None:
    """Answer on standard input and output until the client leaves."""
    server().run()


def server() -> Any:
    """The server with its tools; raises `GbfixError` where the SDK is missing."""
    made = _server_class()("gbfix", instructions=INSTRUCTIONS)
    for tool in TOOLS:
        made.tool(description=tool.__doc__)(_in_thread(tool))
    return made


# -- inside ----------------------------------------------------------------------------------------


def _server_class() -> Any:
    # The name that the SDK gives it since its second major version, and the one before.
    for home, name in (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP")):
        try:
            return getattr(importlib.import_module(home), name)
        except ImportError:
            continue
    raise GbfixError("`gbfix mcp` needs the mcp package; install it: pip install 'gbfix[mcp]'")


#: Programs run one after the other: they share the machine and the fork server.
_one_at_a_time = threading.Lock()


def _in_thread(tool: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """The tool, so that the server goes on answering while it runs; a mistake is an answer."""

    def told(**given: Any) -> dict[str, Any]:
        try:
            return tool(**given)
        except GbfixError as error:
            return {"error": str(error)}

    @functools.wraps(tool)
    async def run(**given: Any) -> dict[str, Any]:
        return await asyncio.to_thread(told, **given)

    return run


def _target(target: str, folder: str, inputs: str) -> tuple[Target, Path]:
    import shlex

    cwd = Path(folder or os.getcwd())
    if not cwd.is_dir():
        raise words.ArgumentError(f"folder: {folder} is no folder; give the project's full path")
    try:
        split = words.split(shlex.split(target), {})
    except ValueError as error:
        raise words.ArgumentError(f"target: {target!r}: {error}") from None
    if split.options or not split.names_target:
        raise words.ArgumentError(
            f"target: {target!r} is not SCRIPT [ARGS], -m MODULE [ARGS] or PATH::QUALNAME"
        )
    return arguments.target(split, inputs or None, str(cwd)), cwd


def _with_config(options: Options, cwd: Path) -> Options:
    """The options, with what ``[tool.gbfix]`` says of files."""
    import dataclasses

    settings = config.load(cwd).options
    return dataclasses.replace(options, exclude=tuple(settings.get("exclude", ())))


def _run(target: str, folder: str, inputs: str, options: Options) -> Report:
    from gbfix import tasks

    wanted, cwd = _target(target, folder, inputs)
    with _one_at_a_time:
        return tasks.run(wanted, _with_config(options, cwd))


def _summary(report: Report, *, looked: bool = True) -> dict[str, Any]:
    from gbfix.report.summary import Mode, closing_line

    mode = Mode.DIFF if looked else Mode.CHECK
    return {
        "summary": closing_line(report, mode) or "Nothing was compiled.",
        "errors": [
            {"kind": e.kind, "message": e.message, "path": e.path, "line": e.line, "fatal": e.fatal}
            for e in report.errors
        ],
        "regions": [
            {
                "name": region.name,
                "place": f"{region.path}:{region.line}",
                # What was not tried has not failed.
                "status": region.status if looked or region.status != "unfixed" else "breaks",
                "breaks": [region.breaks_before, region.breaks_after],
                "graphs": [region.graphs_before, region.graphs_after],
            }
            for region in report.regions
        ],
    }


def _break(found: BreakReport) -> dict[str, Any]:
    from gbfix.report import plain

    cause = found.graph_break
    frame = cause.site or (cause.frames[-1] if cause.frames else None)
    return {
        "code": cause.code,
        "title": cause.gb_type,
        "place": f"{frame.path}:{frame.line}" if frame else "",
        "function": frame.function if frame else "",
        "source": frame.text.strip() if frame else "",
        "region": cause.region.rpartition("::")[2],
        "why": plain.why(cause.explanation or cause.message),
        "facts": list(found.facts),
        "advice": list(found.advice or cause.hints)[:3],
        "tried": [
            f"{item.codemod}: {'passed' if item.passed else item.reason}" for item in found.attempts
        ][:4],
    }


def _patch(patch: Patch) -> dict[str, Any]:
    from gbfix.report.json import verdict_dict

    return {
        "path": patch.path,
        "titles": list(patch.titles),
        "codes": list(patch.codes),
        "safety": str(patch.safety),
        "reasons": list(dict.fromkeys(patch.verdict.caveats)),
        "limits": list(patch.verdict.limits),
        "notes": list(patch.notes),
        "diff": patch.diff,
        "verdict": _rungs(verdict_dict(patch.verdict)),
    }


def _rungs(verdict: Any) -> dict[str, str]:
    """A verdict in a line for each rung."""
    words = {True: "passed", False: "failed", None: "not run"}
    return {
        name: f"{words[rung['passed']]} {rung['detail']}".strip()
        for name, rung in verdict.items()
        if isinstance(rung, dict)
    }


def _bounded(data: dict[str, Any]) -> dict[str, Any]:
    """The same, small enough to be read: long texts and lists say how much was left out."""
    texts, items = _MOST_TEXT, _MOST_ITEMS
    cut = _cut(data, texts, items)
    while len(json.dumps(cut)) > MOST and texts > 100:
        texts, items = texts * 2 // 3, max(items * 2 // 3, 3)
        cut = _cut(data, texts, items)
    found: dict[str, Any] = cut
    return found


def _cut(value: Any, texts: int, items: int) -> Any:
    if isinstance(value, str) and len(value) > texts:
        return f"{value[:texts]} ... ({len(value) - texts} more characters)"
    if isinstance(value, list):
        kept = [_cut(item, texts, items) for item in value[:items]]
        return kept + ([f"... and {len(value) - items} more"] if len(value) > items else [])
    if isinstance(value, dict):
        return {name: _cut(item, texts, items) for name, item in value.items()}
    return value
