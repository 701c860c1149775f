"""How a program ended that called none of its regions: what to say, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gbfix.schema import ErrorReport, Region
from gbfix.worker.protocol import Failed, Finished, Outcome

#: Lines of the program's own output that are shown, and of each as many characters.
_LINES = 6
_WIDTH = 300
#: Kinds of `Failed` that say what happened in a process which the program started.
IN_CHILD = "in-child"


def without_a_call(golden: Outcome, regions: Mapping[str, Region]) -> ErrorReport | None:
    """Why nothing can be said about a program that called no region; None where it did not end.

    ``regions`` is what it compiled, perhaps nothing.
    """
    finished = golden.of(Finished)
    if regions and (golden.ended != "ok" or not finished):
        return None
    status = finished[-1].status if finished else 0
    elsewhere = sorted({event.message for event in golden.of(Failed) if event.kind == IN_CHILD})
    if elsewhere:
        return ErrorReport(
            "only-in-child",
            f"only processes that the program starts call {_names(elsewhere)}; "
            f"{_step_in_child(elsewhere)}",
        )
    if status:
        reached = "called a compiled region" if regions else "compiled anything"
        text = f"the program ended with exit status {status} before it {reached}; "
        text += "mend that first, or give it the arguments that it needs"
        return ErrorReport("ended-early", text, traceback=_last_lines(golden))
    if not regions:
        return ErrorReport(
            "no-region",
            "the program compiled nothing: no call of torch.compile or Module.compile was "
            "reached; compile a function in it, or name one as PATH::QUALNAME",
        )
    names = _names([region.name for region in regions.values()])
    first = next(iter(regions.values()))
    return ErrorReport(
        "never-called",
        f"the program ended by itself, but called nothing of what it compiled ({names}); "
        "call it in the program, or give it arguments that lead there",
        first.path,
        first.line,
        _last_lines(golden),
    )


def never_called(region: Region, golden: Outcome) -> ErrorReport:
    """Why one region was not recorded in a program that called others."""
    if any(_is_of(event, region) for event in golden.of(Failed)):
        text = f"only processes that the program starts call {region.name}; "
        text += _step_in_child([region.name])
        return ErrorReport("only-in-child", text, region.path, region.line, fatal=False)
    text = f"{region.name} was compiled but never called on its own; "
    text += "call it in the program (or raise --timeout) to have it checked"
    return ErrorReport("never-called", text, region.path, region.line, fatal=False)


def _is_of(event: Failed, region: Region) -> bool:
    return event.kind == IN_CHILD and (event.message, event.path, event.line) == (
        region.name,
        region.path,
        region.line,
    )


def _step_in_child(names: Sequence[str]) -> str:
    it = "it" if len(names) == 1 else "them"
    return (
        f"gbfix records one process: have the program call {it} in its own (one worker, "
        "num_workers=0, or the worker's function called directly), or name a function "
        "as PATH::QUALNAME"
    )


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _last_lines(golden: Outcome) -> str:
    """The last lines that the program wrote; empty where it wrote none."""
    told = golden.stderr.decode(errors="replace").strip()
    told = told or golden.stdout.decode(errors="replace").strip()
    lines = [line.rstrip()[:_WIDTH] for line in told.splitlines() if line.strip()]
    return "\n".join(lines[-_LINES:])
