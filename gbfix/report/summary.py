"""What a report amounts to: the closing line and the exit status."""

from __future__ import annotations

import enum
import shlex

from gbfix import packages
from gbfix.schema import Asked, Report


class Mode(enum.StrEnum):
    """What gbfix was asked to do with what it finds."""

    DIFF = "diff"
    APPLY = "apply"
    CHECK = "check"
    INTERACTIVE = "interactive"


def exit_status(report: Report, mode: Mode) -> int:
    """0 nothing to do or everything fixed, 1 breaks remain or a diff is shown, 2 a failure."""
    if any(error.fatal for error in report.errors):
        return 2
    if mode is Mode.CHECK:
        return 1 if report.breaks else 0
    if mode is Mode.DIFF and report.patches:
        return 1
    return 1 if any(found.status != "fixed" for found in report.breaks) else 0


def closing_line(report: Report, mode: Mode) -> str:
    """One line in the manner of ruff's; empty when there was no region to speak of."""
    if not report.regions and not report.breaks:
        return ""
    regions = _count(len(report.regions), "region")
    cached = " (from the cache; --no-cache runs again)" if report.cached else ""
    total = len(report.breaks)
    if not total:
        return f"No graph breaks in {regions}.{cached}"
    line = f"Found {_count(total, 'graph break')}"
    if report.regions:  # a log does not tell which there were
        line += f" in {regions}"
    fixed = sum(found.status == "fixed" for found in report.breaks)
    if mode is not Mode.CHECK:
        word = "would be fixed" if mode is Mode.DIFF else "fixed"
        split = sum(found.split for found in report.breaks if found.status == "fixed")
        line += f": {fixed - split} {word}, "
        if split:
            line += f"{split} only split, "
        line += f"{total - fixed} left"
    unsafe = sum(max(len(patch.titles), 1) for patch in report.unsafe_patches)
    if unsafe:
        line += f" ({_count(unsafe, 'unsafe fix', 'unsafe fixes')} available with --unsafe-fixes)"
    return f"{line}.{cached}"


def next_steps(report: Report, mode: Mode) -> list[tuple[str, str]]:
    """What a person does now: commands, and what each is good for."""
    if any(error.fatal for error in report.errors) or not report.regions:
        return []
    # Of several targets, each has words of its own.
    asked = report.asked or Asked("" if report.targets else report.target)
    steps = _with_patches(report, mode, asked)
    ours = any(found.status != "outside" for found in report.breaks)
    if ours and mode is Mode.CHECK:
        steps.append((asked.command(), "looks for fixes and shows them"))
    outside = packages.outside(report)
    if outside:
        # What the command line names takes the place of what the configuration does.
        names = ",".join([*report.include, *outside])
        command = asked.command("--include", names, leave_out="--include")
        steps.append((command, f"looks for fixes in {', '.join(outside)}, too"))
    if report.unsafe_patches:
        number = sum(max(len(patch.titles), 1) for patch in report.unsafe_patches)
        which = "the unsafe fix" if number == 1 else f"the {number} unsafe fixes"
        steps.append(
            (asked.command("--unsafe-fixes", leave_out="--unsafe-fixes"), f"shows {which}, too")
        )
    unseen = _calls_not_seen(report)
    if unseen:
        command = asked.command("--calls", str(min(unseen[1], _MANY)), leave_out="--calls")
        steps.append((command, _about_calls(*unseen)))
    left = [found for found in report.breaks if found.status != "fixed"]
    codes = list(dict.fromkeys(found.graph_break.code for found in left))
    if codes and (mode is not Mode.CHECK or not steps):
        more = "" if len(codes) <= 3 else " and so on"
        steps.append((f"gbfix explain {' '.join(codes[:3])}", f"what to do by hand{more}"))
    return steps


def _with_patches(report: Report, mode: Mode, asked: Asked) -> list[tuple[str, str]]:
    """What becomes of the patches: written, or saved where they are of a package."""
    theirs = any(packages.holder(one.path, report.include) for one in report.patches)
    ours = any(not packages.holder(one.path, report.include) for one in report.patches)
    fixed = sum(found.status == "fixed" for found in report.breaks)
    fixes, them = (f"the {fixed} fixes", "them") if fixed > 1 else ("the fix", "it")
    steps = []
    if asked.saved and report.patches:
        if asked.runs:
            command = f"gbfix run --overlay {shlex.quote(asked.saved)} {asked.target}"
            steps.append((command, f"runs the program with {fixes}; no file of it changes"))
        else:
            command = f"gbfix overlay check {shlex.quote(asked.saved)}"
            steps.append((command, f"runs the program with {fixes} and without"))
    elif report.held or (theirs and not ours and mode is Mode.DIFF):
        what = fixes if not report.held else "what is in a package"
        steps.append((asked.command("--save", "overlay"), f"saves {what} for `gbfix run`"))
    if ours and mode is Mode.APPLY:
        steps.append(("git diff", "shows what was written; `gbfix undo` takes it back"))
    elif ours and mode is Mode.DIFF and theirs:
        command = asked.command("--apply", "--save", asked.saved or "overlay")
        steps.append((command, f"writes {fixes}; saves what is in a package for `gbfix run`"))
    elif ours and mode is Mode.DIFF:
        what = f"writes {fixes}; `gbfix undo` takes {them} back"
        steps.append((asked.command("--apply"), what))
    return steps


#: How many calls of a region are worth recording: each takes a second or so.
_MANY = 8


def _calls_not_seen(report: Report) -> tuple[int, int] | None:
    """Recorded calls, and all, of the region that has the most which nobody looked at."""
    found = [(it.calls, it.calls_made) for it in report.regions if it.calls_made is not None]
    seen, made = max(found, key=lambda pair: pair[1] - pair[0], default=(0, 0))
    return (seen, made) if made > seen else None


def _about_calls(seen: int, made: int) -> str:
    return f"looks at more calls; {seen} of {made} were recorded: the first ones and new kinds"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
