"""Judges a change that somebody else made: the whole ladder, region by region.

The original is the program with the old texts, the candidate the one with the new: both are served
from memory, so that imports, working folder and data files are those of the project as it stands.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import gbfix
from gbfix import arguments, changes, engine, ladder, matching, recording, registry, wording
from gbfix.changes import Change
from gbfix.climbing import Whole, is_print, lend, without_prints
from gbfix.errors import Stop
from gbfix.evidence import Assumption, forgive
from gbfix.loop import Loop
from gbfix.runner import Runner
from gbfix.schema import (
    ErrorReport,
    FrameFacts,
    GraphBreak,
    Options,
    Region,
    Report,
    Rung,
    Target,
    Verdict,
)
from gbfix.source import ABSENT, SourceError, project_root
from gbfix.trial import Observed
from gbfix.verification import RegionVerdict, Verification, Witness
from gbfix.words import ArgumentError
from gbfix.worker.protocol import (
    Compared,
    FactsSeen,
    Failed,
    Finished,
    Instrument,
    Nondeterministic,
    Outcome,
    RegionCalled,
    RegionSeen,
)

#: What fails there shows no input that gives another value, but a reason to look twice.
_NOT_VALUES = frozenset({"recompiles", "parts", "branches"})

#: Words by which a text asks the compiler to believe it, and what is then believed.
_TRUSTED = {
    "custom_op": "what the operator says of its results and of what it changes",
    "triton_op": "what the operator says of its results and of what it changes",
    "register_fake": "what the fake says of the operator's results",
    "nonstrict_trace": "that the function reads nothing but its arguments",
    "allow_in_graph": "that the function reads nothing but its arguments",
    "leaf_function": "that the function reads nothing but its arguments",
    "assume_constant_result": "that the function gives the same for ever",
}

Progress = Callable[[str], None]


def verify(
    target: Target,
    options: Options,
    change: Change,
    progress: Progress = lambda text: None,
    runner: Runner | None = None,
) -> Verification:
    """Whether a change is right.  Never raises for anything that the program does."""
    started = time.monotonic()
    result = Verification(target.display, change.against, tuple(change.shown(target.cwd)))
    result.torch_version = registry.torch_version()
    if change.others:
        names = ", ".join(os.path.basename(path) for path in change.others[:3])
        more = f" and {len(change.others) - 3} more" if len(change.others) > 3 else ""
        result.limits.append(
            f"{names}{more} changed too and no Python source: both programs read these files as "
            "they are now, so what they change was not compared"
        )
    if change.files:
        report = Report(target.display, result.torch_version, gbfix.__version__)
        try:
            engine.check(target, change.base, change.edits)
            _Judge(target, options, change, report, result, progress, runner).run()
        except Stop as stop:
            result.errors.append(stop.error)
        except SourceError as error:
            text = str(error).removeprefix(f"{error.path}:{error.line}: ")
            result.errors.append(
                ErrorReport("source", text.removeprefix(f"{error.path}: "), error.path, error.line)
            )
        result.errors += [error for error in report.errors if not error.fatal]
    result.seconds = time.monotonic() - started
    return result


def change_for(
    target: Target, against: str | None, patch: str | None, data: bytes, cwd: Path
) -> Change:
    """What is to be judged for a target: all that changed in its project.

    Raises `ArgumentError` for a notebook, whose cells are never compared.
    """
    if target.kind == "script" and target.value.endswith(".ipynb"):
        raise ArgumentError(
            f"{target.value}: verify does not read notebooks; write both versions as scripts "
            "(`jupyter nbconvert --to script`), each in a folder of its own, and compare these "
            "with --against DIR"
        )
    file = arguments.file_of(target)
    start = file.parent if file is not None else Path(target.cwd)
    if patch:
        roots = dict.fromkeys([cwd, project_root(start)])
        return changes.with_patch(data, changes.root_for(data, list(roots)), patch)
    if against and Path(cwd, against).is_dir():
        return changes.against_folder(Path(cwd, against), project_root(start))
    return changes.against_revision(against or "HEAD", start)


class _Judge:
    """One run of `verify`."""

    def __init__(
        self,
        target: Target,
        options: Options,
        change: Change,
        report: Report,
        result: Verification,
        progress: Progress,
        runner: Runner | None,
    ) -> None:
        self._options = options
        self._change = change
        self._report = report
        self._result = result
        self._progress = progress
        self._loop = Loop(target, options, report, progress, runner, change.base)
        self._before = {item.path: item.texts[0] for item in change.files}
        self._after = change.edits

    def run(self) -> None:
        bad = [problem for path, text in self._after.items() if (problem := _syntax(path, text))]
        if bad:
            self._result.regions = []
            source = Rung("source", False, bad[0])
            self._result.program = RegionVerdict(
                "", "the program", "", 0, "wrong", tuple(bad), Verdict((source,))
            )
            return
        with self._loop.recorded() as (bench, trials, recorded):
            self._bench, self._recorded = bench, recorded
            self._spell(recorded)
            self._trials = Whole(
                bench, trials.baseline, recorded.regions, self._options, self._progress
            )
            self._functions = matching.changed_functions(self._before, self._after)
            self._stability()
            self._compare()

    def _spell(self, recorded: recording.Recording) -> None:
        """Name the files as the program does (links and all)."""
        spelled = {os.path.realpath(region.path): region.path for region in
                   recorded.regions.values()}  # fmt: skip
        self._before = {spelled.get(path, path): text for path, text in self._before.items()}
        self._after = {spelled.get(path, path): text for path, text in self._after.items()}

    # -- runs --------------------------------------------------------------------------------

    def _stability(self) -> None:
        """What two runs of the original differ in, and which sides of its tests ran."""
        looks = [
            Instrument(item.path, "facts", item.line)
            for item in self._functions
            if item.version == "before" and item.line
        ]
        outcome = self._bench.once(self._bench.job("facts", {}, looks))
        baseline = self._trials.baseline
        unstable = dict(baseline.unstable)
        for event in outcome.of(Nondeterministic):
            names = ladder.unstable_names(event.what)
            unstable[event.key] = unstable.get(event.key, frozenset()) | names
            shown = [finding for finding in event.what if not ladder.is_nobodys(finding)]
            if not shown:
                continue
            what = list(dict.fromkeys(wording.subject(finding) for finding in shown))
            region = self._recorded.regions.get(event.key)
            name = event.key.rpartition("::")[2]
            self._report.errors.append(
                ErrorReport(
                    "nondeterministic",
                    f"{name}: two runs of the unchanged program differ in "
                    f"{', '.join(what[:3])}; these could not be compared (seed what is random)",
                    region.path if region else "",
                    region.line if region else 0,
                    fatal=False,
                )
            )
        self._trials.baseline = dataclasses.replace(baseline, unstable=unstable)
        self._seen = _merged_facts(outcome)

    def _compare(self) -> None:
        looks = [
            Instrument(item.path, "facts", item.line)
            for item in self._functions
            if item.version == "after" and item.line
        ]
        observers = self._trials.observers(self._after)
        self._progress("running the changed program")
        jobs = [
            self._bench.job("candidate", self._after, observers),
            self._bench.job("user", self._after),
        ]
        if looks:
            jobs.append(self._bench.job("facts", self._after, looks))
        candidate, user, *ran = self._bench.together(*jobs)
        known = set(self._recorded.calls)
        matched = matching.match_regions(
            self._recorded.regions,
            {event.key: event for run in (candidate, user) for event in run.of(RegionSeen)},
            {event.key for run in (candidate, user) for event in run.of(RegionCalled)},
            {path: (self._before[path], self._after[path]) for path in self._after},
        )
        if matched:
            self._progress("running it again: regions were renamed or moved")
            lend(self._bench.golden, matched)
            candidate = self._bench.once(self._bench.job("candidate", self._after, observers))
            candidate, user = (matching.renamed(run, matched) for run in (candidate, user))
        if ladder.wants_inherent(candidate):
            plain = self._bench.once(self._bench.job("candidate", {}, every=True))
            inherent = ladder.inherent_differences(plain)
            self._trials.baseline = dataclasses.replace(self._trials.baseline, inherent=inherent)
        seen = {event.key: event for run in (candidate, user) for event in run.of(RegionSeen)}
        called = {event.key for run in (candidate, user) for event in run.of(RegionCalled)}
        fresh = sorted(called - known)
        parents = matching.parents(
            fresh, [key for key in known if key in called], self._recorded.regions, seen
        )
        # What a call of its own inputs prints no more, and the program all the same.
        moved = _printing(candidate) if self._same_output(candidate, user) else frozenset()
        candidate, user = (without_prints(run, moved) for run in (candidate, user))
        self._moved = moved
        self._trials.adapt(matched, moved)
        whole = self._whole(candidate, user)
        self._arguments(candidate)
        for key, region in self._recorded.regions.items():
            if region.status == "error":
                continue
            if key not in called:
                self._result.regions.append(self._gone(key, region, _crashed(candidate)))
                continue
            mine = {key, *(new for new, parent in parents.items() if parent == key)}
            self._result.regions.append(
                self._judged(key, region, mine, candidate, user, whole, seen.get(key), matched)
            )
        for key in fresh:
            if key not in parents:
                self._result.regions.append(self._new(key, seen[key], candidate, user))
        self._program(whole, candidate)
        self._coverage(candidate, user, ran)
        self._trusted()
        outside = [
            os.path.basename(path)
            for path in matching.changed_outside(self._before, self._after)
            if ABSENT not in (self._before[path], self._after[path])
        ]
        if outside:
            self._result.limits.append(
                f"code outside functions changed in {_listed(outside)}: of what it does, only what "
                "reaches compiled regions and what the program prints was compared"
            )

    def _same_output(self, candidate: Outcome, user: Outcome) -> bool:
        """Whether both programs, run to their ends, print the same from first to last."""
        baseline = self._trials.baseline
        whole = all(
            run.of(Finished) and not any(event.stopped for event in run.of(Finished))
            for run in (candidate, user)
        )
        known = baseline.stable_output and baseline.ended_by_itself
        return known and whole and candidate.shown == user.shown == baseline.shown

    def _whole(self, candidate: Outcome, user: Outcome) -> ladder.Judgement:
        """The program as a whole: what its regions do not say, and what takes further runs."""
        source = Rung("source", True)
        judgement = self._judge(source, candidate, user, self._trials.baseline)
        if judgement.verdict.passed:
            self._trials.extend(
                judgement, self._before, self._after, self._seen, self._functions,
                {path: self._bench.source(path).text for path in self._recorded.files
                 if os.path.exists(path)},
            )  # fmt: skip
        return judgement

    def _judge(
        self,
        source: Rung,
        candidate: Outcome,
        user: Outcome,
        baseline: ladder.Baseline,
        target: str = "",
    ) -> ladder.Judgement:
        return ladder.judge(
            source,
            candidate,
            user,
            baseline,
            self._options.backends,
            target=target,
            avoid=frozenset(),
            avoid_path="",
            avoid_code="",
            # The callers are part of the change: what they pass is theirs to decide.
            assumes=(Assumption.ARGUMENTS_CHANGE,),
        )

    # -- verdicts ----------------------------------------------------------------------------

    def _judged(
        self,
        key: str,
        region: Region,
        mine: set[str],
        candidate: Outcome,
        user: Outcome,
        whole: ladder.Judgement,
        seen: RegionSeen | None,
        matched: Mapping[str, str],
    ) -> RegionVerdict:
        own, own_user = (_only(run, mine) for run in (candidate, user))
        baseline = self._trials.baseline
        alone = dataclasses.replace(
            baseline,
            calls={key: self._recorded.calls[key]},
            parts={new: key for new in mine if new != key},
            ended_by_itself=False,
        )
        judgement = self._judge(Rung("source", True), own, own_user, alone, key)
        # What took runs of its own was done for all regions at once.
        more = tuple(
            rung
            for rung in whole.verdict.rungs
            if rung.name in ("inductor", "branches", "unrun", "constants")
            and judgement.verdict.rung(rung.name) is None
        )
        verdict = dataclasses.replace(
            judgement.verdict,
            rungs=(*judgement.verdict.rungs, *more),
            branches=whole.verdict.branches,
        )
        breaks = recording.merged(
            judgement.next_breaks.get(key, ()), judgement.user_breaks.get(key, ())
        )
        if key in self._moved:
            text = (
                "the program prints the same, but not in this function any more: whoever calls it "
                "from elsewhere sees other output"
            )
            verdict = verdict.with_rung(Rung("prints", True, "", (text,)))
        status, reasons = _status(verdict, breaks)
        parts = sorted(name.rpartition("::")[2] for name in mine - {key})
        note = f"no longer compiled as a whole: {', '.join(parts)} compiled instead"
        before = self._recorded.breaks(key)
        where = seen or region
        new_name = next((new for new, old in matched.items() if old == key), "")
        return RegionVerdict(
            key,
            new_name.rpartition("::")[2] if new_name else region.name,
            new_name.rpartition("::")[0] if new_name else where.path,
            where.line,
            status,
            reasons,
            verdict,
            breaks,
            len(before),
            len(breaks),
            self._recorded.graphs.get(key),
            judgement.graphs.get(key),
            was=key if new_name else "",
            old_line=region.line,
            note=note if parts else "",
            witness=_witness(own, key, verdict),
        )

    def _gone(self, key: str, region: Region, crashed: bool) -> RegionVerdict:
        text = (
            "the changed program ended before it was called"
            if crashed
            else "no region of the changed program corresponds to it (it was removed, or renamed "
            "and changed at once), so its values could not be compared; only the program's output "
            "was"
        )
        return RegionVerdict(
            key, region.name, region.path, region.line, "unmatched", (text,),
            breaks_before=region.breaks_before, graphs_before=region.graphs_before,
        )  # fmt: skip

    def _new(self, key: str, seen: RegionSeen, candidate: Outcome, user: Outcome) -> RegionVerdict:
        breaks = recording.merged(
            ladder.first_breaks(candidate).get(key, ()), ladder.all_breaks(user).get(key, ())
        )
        return RegionVerdict(
            key,
            seen.name,
            seen.path,
            seen.line,
            "still breaks" if breaks else "same",
            breaks=breaks,
            breaks_after=len(breaks),
            graphs_after=ladder.region_graphs(user).get(key),
            note="new: nothing to compare it with, apart from what the program prints",
        )

    def _program(self, whole: ladder.Judgement, candidate: Outcome) -> None:
        """What fails in the program, but in none of its regions."""
        if any(item.status in ("wrong", "error") for item in self._result.regions):
            return
        failing = [rung for rung in whole.verdict.rungs if rung.passed is False]
        known = {(r.name, r.detail) for item in self._result.regions for r in item.verdict.rungs}
        failing = [rung for rung in failing if (rung.name, rung.detail) not in known]
        rung = whole.verdict.rung("program")
        caveats = rung.caveats if rung is not None and not failing else ()
        of_regions = {text for item in self._result.regions for text in item.verdict.caveats}
        caveats = tuple(text for text in caveats if text not in of_regions)
        if not failing and not caveats:
            return
        if any(item.status == "unmatched" for item in self._result.regions):
            # That its calls were not reached is why it is unmatched.
            failing = [rung for rung in failing if "was not reached" not in rung.detail]
            if not failing:
                return
        texts = tuple(rung.detail for rung in failing) or caveats
        status = "wrong" if failing else "unsafe"
        self._result.program = RegionVerdict(
            "", "the program", "", 0, status, texts,
            Verdict(tuple(failing) or ((rung,) if rung else ())),
            witness=Witness("", 0, "", "program", texts[0]) if failing else None,
        )  # fmt: skip

    def _arguments(self, candidate: Outcome) -> None:
        """Regions whose callers pass a list now where they passed an iterator."""
        for event in candidate.of(Compared):
            left = forgive(event.findings, (Assumption.ARGUMENTS_CHANGE,), compiled=False).left
            if event.index == 0 and event.rung == "eager" and len(left) < len(event.findings):
                name = event.key.rpartition("::")[2]
                self._result.limits.append(
                    f"the callers of {name} pass a list where they passed an iterator: a call with "
                    "an iterator was not compared"
                )

    def _trusted(self) -> None:
        """What the change asks the compiler to believe: it was seen to hold, and no more."""
        for word, what in _TRUSTED.items():
            called = re.compile(rf"\b{word}\b")
            more = sum(
                len(called.findall(text)) - len(called.findall(self._before[path]))
                for path, text in self._after.items()
            )
            if more > 0:
                self._result.limits.append(
                    f"with `{word}` the compiler believes {what}: that was checked on the calls "
                    "that were tried, and holds for others only if the code keeps to it"
                )

    def _coverage(self, candidate: Outcome, user: Outcome, ran: Sequence[Outcome]) -> None:
        """What changed and was not run, so that nothing is known of it."""
        loaded = {os.path.realpath(path) for path in self._recorded.files}
        for run in (candidate, user):
            loaded |= {os.path.realpath(path) for event in run.of(Finished) for path in event.files}
        stopped = not any(run.of(Finished) for run in (candidate, user))
        cwd = self._loop.target.cwd
        apart = [
            item.path for item in self._change.files
            if item.path not in loaded and item.after is not None and not stopped
        ]  # fmt: skip
        names = [_relative(path, cwd) for path in apart]
        if names:
            verb = "is" if len(names) == 1 else "are"
            self._result.limits.append(
                f"{_listed(names)} {verb} not loaded by this program: nothing is said about "
                f"{'it' if len(names) == 1 else 'them'}"
            )
        if len(apart) == len([item for item in self._change.files if item.after is not None]) and (
            all(item.status == "safe" for item in self._result.regions)
            and not any(item.before and item.path in loaded for item in self._change.files)
        ):
            for item in self._result.regions:
                item.status = "same"
        executed = {
            (os.path.realpath(event.path), line)
            for run in ran
            for event in run.of(FactsSeen)
            for line, count in event.facts.executed.items()
            if count
        }
        idle = [
            f"{item.name} ({_relative(item.path, cwd)}:{item.line})"
            for item in self._functions
            if ran and item.version == "after" and os.path.realpath(item.path) in loaded
            and not any((os.path.realpath(item.path), line) in executed for line in item.body)
        ]  # fmt: skip
        if idle:
            self._result.limits.append(
                f"{_listed(idle)} changed and never ran in this program: nothing is said about "
                f"{'it' if len(idle) == 1 else 'them'}"
            )


def _status(verdict: Verdict, breaks: Sequence[GraphBreak]) -> tuple[str, tuple[str, ...]]:
    failing = [rung for rung in verdict.rungs if rung.passed is False]
    values = [rung for rung in failing if rung.name not in _NOT_VALUES]
    unmeasured = [rung for rung in values if rung.detail.startswith("could not be measured")]
    if unmeasured:
        return "error", tuple(rung.detail for rung in unmeasured)
    if values:
        return "wrong", tuple(dict.fromkeys(rung.detail for rung in values))
    caveats = (*(f"{r.name}: {r.detail}" for r in failing), *dict.fromkeys(verdict.caveats))
    if caveats:
        return "unsafe", caveats
    if breaks:
        return "still breaks", ()
    return "safe", ()


def _witness(run: Outcome, key: str, verdict: Verdict) -> Witness | None:
    """The first comparison that showed a difference which counts."""
    texts = {rung.detail for rung in verdict.rungs if rung.passed is False}
    for event in run.of(Compared):
        for finding in event.findings:
            text = wording.difference(finding)
            if event.key == key and text in texts:
                return Witness(key, event.index, finding.label, event.rung, text)
    for failed in run.of(Failed):
        if failed.key == key and any(failed.message in text for text in texts):
            return Witness(key, failed.index, "base", "eager", failed.message)
    return None


def _printing(run: Outcome) -> frozenset[str]:
    """Regions whose recorded calls print something else."""
    return frozenset(
        event.key
        for event in run.of(Compared)
        for finding in event.findings
        if is_print(finding) and finding.label == "base"
    )


def _only(run: Outcome, keys: set[str]) -> Outcome:
    """What a run says of these regions."""
    events = [
        event
        for event in run.events
        if getattr(event, "key", None) in keys
        or not hasattr(event, "key")
    ]  # fmt: skip
    crashed = any(isinstance(event, Failed) and not event.key for event in run.events)
    return dataclasses.replace(run, events=events, ended="ok" if crashed else run.ended)


def _crashed(run: Outcome) -> bool:
    return run.ended not in ("ok", "stopped") or any(not event.key for event in run.of(Failed))


def _merged_facts(outcome: Outcome) -> dict[str, Observed]:
    """By file: what the original's changed functions saw, over all that was looked at."""
    found: dict[str, Observed] = {}
    for event in outcome.of(FactsSeen):
        known = found.setdefault(event.path, Observed(FrameFacts(), {}))
        facts = known.facts.merged(event.facts)
        outcomes = dict(known.outcomes)
        for place, (no, yes) in event.outcomes.items():
            old = outcomes.get(place, (0, 0))
            outcomes[place] = (max(old[0], no), max(old[1], yes))
        found[event.path] = Observed(facts, outcomes)
    return found


def _syntax(path: str, text: str) -> str:
    """Why a text is no Python; empty where it is."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 0)
        return f"{path}:{line}: does not parse: {getattr(error, 'msg', error)}"
    return ""


def _relative(path: str, cwd: str) -> str:
    with contextlib.suppress(ValueError):
        return str(Path(path).relative_to(os.path.realpath(cwd)))
    return path


def _listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
