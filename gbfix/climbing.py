"""The ladder for texts that no codemod wrote: whole files, regions that were renamed or moved."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from gbfix import ladder, matching
from gbfix.bench import Bench
from gbfix.codemod import RecordedFacts, Rewrite, Site, SiteError
from gbfix.evidence import Finding, Part
from gbfix.schema import Frame, FrameFacts, GraphBreak, Rung, Span, Verdict
from gbfix.source import ABSENT
from gbfix.trial import Observed, Trials
from gbfix.worker.protocol import Compared, Instrument, Job, Outcome

#: A break that nothing answers: the place of a test that a change rewrote.
_NO_CODE = "GB0291"


def lend(golden: str, matched: Mapping[str, str]) -> None:
    """Let regions of new names find what was recorded of the old ones."""
    for new, old in matched.items():
        for source in Path(golden).glob(f"{_digest(old)}-*.golden"):
            target = source.with_name(source.name.replace(_digest(old), _digest(new)))
            with contextlib.suppress(FileExistsError):
                os.link(source, target)


def is_print(finding: Finding) -> bool:
    """Whether a call prints something else, or at another time."""
    return finding.part is Part.EFFECT and finding.place in ("stdout", "order")


def without_prints(run: Outcome, keys: Collection[str]) -> Outcome:
    events = [
        dataclasses.replace(
            event, findings=tuple(item for item in event.findings if not is_print(item))
        )
        if isinstance(event, Compared) and event.key in keys
        else event
        for event in run.events
    ]
    return dataclasses.replace(run, events=events)


class _Adapted:
    """A bench whose candidates call regions by other names than their golden runs.

    What the regions in ``moved`` print is not looked at.
    """

    def __init__(self, bench: Bench, matched: Mapping[str, str], moved: Collection[str]) -> None:
        self._inner = bench
        self._matched = matched
        self._moved = moved

    def once(self, job: Job, limit: float = 0.0) -> Outcome:
        lend(job.golden, self._matched)
        outcome = matching.renamed(self._inner.once(job, limit), self._matched)
        return without_prints(outcome, self._moved)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Whole(Trials):
    """The steps of the ladder that take runs of their own, for texts that no codemod wrote."""

    def adapt(self, matched: Mapping[str, str], moved: Collection[str]) -> None:
        """Take regions by their new names, and leave aside what those in ``moved`` print."""
        if matched or moved:
            self._bench = cast(Bench, _Adapted(self._bench, matched, moved))

    def observers(self, texts: Mapping[str, str]) -> list[Instrument]:
        return self._observers(dict(texts))

    def extend(
        self,
        judgement: ladder.Judgement,
        before: Mapping[str, str],
        after: Mapping[str, str],
        seen: Mapping[str, Observed],
        functions: Sequence[matching.ChangedFunction],
        sources: Mapping[str, str],
    ) -> None:
        """Climb on: inductor, branches, arms, constants; the worst of all files counts."""
        everything = {
            path: _ranges(ladder.removed_lines(text, after[path])) for path, text in before.items()
        }
        rewrite = Rewrite("the change", dict(after), everything, codemod="the change")
        kept = {path: text for path, text in before.items() if text != ABSENT}
        if self._wants_inductor(dict(before), dict(after)):
            self._inductor(judgement, dict(after), ("", frozenset(), ""), rewrite)
        rungs: list[Verdict] = []
        for path in kept:
            if not judgement.verdict.passed:
                return
            observed = seen.get(path)
            line = next((f.line for f in functions
                         if f.path == path and f.version == "before"), 0)  # fmt: skip
            site = _site(path, before[path], line, observed, sources)
            if observed is None or site is None or after[path] == ABSENT:
                continue
            self._branches(judgement, rewrite, site, observed, {}, dict(after))
            found = judgement.verdict.rung("branches")
            if found is not None:
                rungs.append(judgement.verdict)
                judgement.verdict = dataclasses.replace(
                    judgement.verdict,
                    rungs=tuple(r for r in judgement.verdict.rungs if r.name != "branches"),
                    branches=None,
                )
                if found.passed is False:
                    break
            self._unrun(judgement, site, observed, {}, dict(after))
        if rungs:
            self._sum_up(judgement, rungs)
        if not judgement.verdict.passed:
            return
        first = next(iter(kept), "")
        site = _site(first, before[first], 1, None, sources) if first else None
        if site is not None:
            self._constants(judgement, rewrite, site, dict(before), {}, dict(after))

    @staticmethod
    def _sum_up(judgement: ladder.Judgement, found: Sequence[Verdict]) -> None:
        """One rung for the branches of all files."""
        rungs = [rung for verdict in found if (rung := verdict.rung("branches")) is not None]
        counts = [verdict.branches for verdict in found if verdict.branches]
        ran, total = sum(count[0] for count in counts), sum(count[1] for count in counts)
        failed = [rung for rung in rungs if rung.passed is False]
        caveats = tuple(text for rung in rungs for text in rung.caveats)
        detail = failed[0].detail if failed else f"{ran} of {total} ran"
        judgement.verdict = dataclasses.replace(
            judgement.verdict.with_rung(Rung("branches", not failed, detail, caveats)),
            branches=(ran, total),
        )


def _site(
    path: str, text: str, line: int, observed: Observed | None, sources: Mapping[str, str]
) -> Site | None:
    """A place to start from, where no break gave one."""
    row = (text.split("\n") or [""])[max(line, 1) - 1] if line <= text.count("\n") + 1 else ""
    start = len(row) - len(row.lstrip())
    frame = Frame(path, max(line, 1), "", start, max(line, 1), len(row.rstrip()))
    found = GraphBreak(_NO_CODE, "", "", "", (), (frame,), "", frame)
    facts = RecordedFacts(observed.facts if observed else FrameFacts())
    try:
        return Site(path, text, found, facts, sources={**sources, path: text})
    except (SiteError, ValueError, SyntaxError):
        return None


def _ranges(lines: Iterable[int]) -> tuple[Span, ...]:
    """Spans of whole lines, those next to each other as one."""
    spans: list[Span] = []
    for line in sorted(lines):
        if spans and spans[-1].end_line == line - 1:
            spans[-1] = dataclasses.replace(spans[-1], end_line=line)
        else:
            spans.append(Span(line, 0, line, 1 << 20))
    return tuple(spans)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]
