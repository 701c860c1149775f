"""What `gbfix verify` found: a verdict for each region, and one for the change."""

from __future__ import annotations

import dataclasses

import gbfix
from gbfix.schema import Asked, ErrorReport, GraphBreak, Verdict

#: From best to worst: the worst of its parts is what a change is.
STATUSES = ("same", "safe", "still breaks", "unsafe", "unmatched", "wrong", "error")


@dataclasses.dataclass(frozen=True)
class Witness:
    """What shows a difference: the region, its call, the inputs by their label, and the rung."""

    region: str
    index: int
    inputs: str
    rung: str
    text: str


@dataclasses.dataclass
class RegionVerdict:
    """What a change does to one region; ``key`` is the region's in the old texts."""

    key: str
    name: str
    path: str
    line: int
    status: str
    reasons: tuple[str, ...] = ()
    verdict: Verdict = dataclasses.field(default_factory=Verdict)
    breaks: tuple[GraphBreak, ...] = ()
    breaks_before: int | None = None
    breaks_after: int | None = None
    graphs_before: int | None = None
    graphs_after: int | None = None
    #: The old name and place of a region that was renamed or moved.
    was: str = ""
    old_line: int = 0
    note: str = ""
    witness: Witness | None = None


@dataclasses.dataclass
class Verification:
    """Everything that `gbfix verify` says."""

    target: str
    against: str
    files: tuple[tuple[str, str], ...] = ()
    torch_version: str = ""
    gbfix_version: str = gbfix.__version__
    regions: list[RegionVerdict] = dataclasses.field(default_factory=list)
    #: What was seen of the program as a whole: its output, its end.
    program: RegionVerdict | None = None
    #: What the verdict does not cover, a plain sentence each.
    limits: list[str] = dataclasses.field(default_factory=list)
    errors: list[ErrorReport] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    #: The folder with the counterexample, and whether its script shows the difference.
    counterexample: str = ""
    reproduced: bool | None = None
    #: The command line, where one asked for this.
    asked: Asked | None = None

    @property
    def parts(self) -> list[RegionVerdict]:
        return [*self.regions, *([self.program] if self.program else [])]

    @property
    def status(self) -> str:
        if any(error.fatal for error in self.errors):
            return "error"
        return max((item.status for item in self.parts), key=STATUSES.index, default="same")

    @property
    def witness(self) -> Witness | None:
        return next((item.witness for item in self.parts if item.witness is not None), None)

    def exit_status(self, *, allow_breaks: bool = False) -> int:
        """0 the change is safe, 1 it is not (or breaks are left), 2 it could not be judged."""
        status = self.status
        if status == "error":
            return 2
        if status == "still breaks" and allow_breaks:
            more = any((item.breaks_after or 0) > (item.breaks_before or 0) for item in self.parts)
            return 1 if more else 0
        return 0 if status in ("same", "safe") else 1
