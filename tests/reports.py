"""Reports as the engine makes them, for the tests of everything that shows them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from gbfix.patch import unified_diff
from gbfix.schema import (
    Attempt,
    BreakReport,
    ErrorReport,
    Frame,
    GraphBreak,
    Patch,
    Region,
    Report,
    Rung,
    Safety,
    Verdict,
)

BEFORE = "import torch\n\n\ndef f(x):\n\tif x.sum() > 0:\n\t\treturn x\n\treturn -x\n"
AFTER = BEFORE.replace("if x.sum() > 0", "if True")

VERDICT = Verdict(
    (
        Rung("source", True),
        Rung("eager", True, "2 calls"),
        Rung("aot_eager", True, "2 calls"),
        Rung("gradients", None, "no backward reached them"),
        Rung("branches", True, "2 of 2 ran"),
    ),
    branches=(2, 2),
    perturbed=12,
)
UNSAFE = Verdict((Rung("eager", True), Rung("branches", True, "", ("one branch was never run",))))


def graph_break(path: Path, code: str = "GB0170", line: int = 5) -> GraphBreak:
    frame = Frame(str(path), line, "f", 4, line, 15, "x.sum() > 0")
    return GraphBreak(
        code,
        "Data-dependent branching",
        "Detected data-dependent\n    branching.",
        "attempted to jump with TensorVariable()",
        ("Use `torch.cond`.",),
        (Frame("/usr/lib/x.py", 3, "main", in_project=False), frame),
        "f",
        frame,
    )


def patch(path: Path, before: str = BEFORE, after: str = AFTER, shown: str = "") -> Patch:
    return Patch(
        str(path),
        unified_diff(before, after, shown or path.name),
        before,
        after,
        ("if-to-cond",),
        ("GB0170",),
        Safety.SAFE,
        VERDICT,
        ("use torch.cond",),
        ("outside a compiled region torch.cond costs about 0.5 ms a call",),
    )


def fixed(path: Path) -> Report:
    """One region with one break, which a patch fixes."""
    tried = Attempt("if-to-where", "use torch.where", False, "outputs: differ at call 1")
    taken = Attempt("if-to-cond", "use torch.cond", True)
    return Report(
        path.name,
        "2.13.0",
        "0.1.0",
        [Region("f", str(path), 4, status="fixed", calls=2, breaks_before=1, breaks_after=0,
                graphs_before=2, graphs_after=1)],
        [BreakReport(graph_break(path), "fixed", "if-to-cond", (), (tried, taken), "https://x/gb")],
        [patch(path)],
    )  # fmt: skip


def unfixed(path: Path) -> Report:
    """The same break, for which there is only an unsafe patch."""
    report = fixed(path)
    tried = Attempt("if-to-where", "use torch.where", False, "outputs:\n differ")
    report.patches = []
    report.unsafe_patches = [
        dataclasses.replace(patch(path), safety=Safety.UNSAFE, verdict=UNSAFE, notes=())
    ]
    report.breaks = [
        BreakReport(graph_break(path), "unfixed", None, ("Use torch.cond by hand.",), (tried,), "u")
    ]
    report.regions[0].status = "unfixed"
    report.regions[0].breaks_after = 1
    report.regions[0].graphs_after = 2
    return report


def clean(path: Path) -> Report:
    return Report(path.name, "2.13.0", "0.1.0", [Region("f", str(path), 4, graphs_before=1)])


def failed(path: Path) -> Report:
    error = ErrorReport(
        "eager-error",
        "fails without torch.compile too: ValueError: bad",
        str(path),
        7,
        "Traceback (most recent call last):\n  ...\nValueError: bad\n",
    )
    return Report(path.name, "2.13.0", "0.1.0", errors=[error])
