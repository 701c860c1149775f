"""Tries one rewrite: runs the patched program, climbs the ladder, forces what no input reached."""

from __future__ import annotations

import ast
import dataclasses
import functools
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from gbfix import branches, forced_sizes, ladder, payoff, unrun, unseen
from gbfix.analysis.lost_reads import frozen_reads, lost_reads, reads_environment
from gbfix.analysis.mask_widths import mask_widths
from gbfix.analysis.trees import tree_of
from gbfix.bench import Ahead, Bench
from gbfix.clock import Clock
from gbfix.codemod import Rewrite, Site
from gbfix.evidence import Assumption
from gbfix.schema import FrameFacts, Options, Payoff, Region, Rung, Safety, Span, Verdict
from gbfix.source import SourceError
from gbfix.worker.protocol import Compared, Failed, Instrument, Job, Outcome, RegionCalled

#: Operators, and settings, for which torch lowers by paths of their own.
_OPERATORS = re.compile(
    r"\b(?:cond|while_loop|scan|register_effect|custom_op|triton_op|nonstrict_trace)\(|_higher_order_ops\."
    r"|\bcapture_\w+_(?:outputs|ops)\b|\ballow_rnn\b"
)

#: Texts, whether state is constant, and further inputs of a run under inductor.
_Compiled = tuple[frozenset[tuple[str, str]], bool, frozenset[str]]

#: Seconds for the last look at all patches together, where none of them asks for it.
_LAST = 40.0
#: Compilations under inductor that may be too long, before no more are begun: what is slow there is
#: the model, most of the time, and not the patch.
_GIVE_UP = 2

#: Arms of Python's own conditions that are run by force for one rewrite.
_UNRUN = 3

#: What a rewrite says it has proved of state that it reads earlier than the original did.
_PROVED = frozenset({"state-is-constant", "reads-once"})

#: What a rewrite asks to have been seen of sizes that data decides.
_SIZES = "sizes"
_WIDTHS = "widths"

#: What a rewrite asks to have been seen of a condition that it leaves out.
_SHORTCUT = "shortcut"

#: Numbers and selections that are given values of 0 and 1 for one rewrite.
_SOURCES = 3

#: What rewrites ask for by the names of inputs.
_BY_LABEL = frozenset({"twins"})
#: What holds of a rewrite whatever a condition or a number is made to be.
_LASTING = (
    Assumption.FLAGS_UNASKED,
    Assumption.KEEPS_GRAPH,
    Assumption.UNSET_AT_ERRORS,
    Assumption.TEXT_OF_NUMBERS,
)
_SIZES_NOT_TRIED = "sizes of 0 and of 1 that the data decides were not all tried under inductor"

_DISABLE = "compiler.disable"

#: How the variation that gives a global or an attribute another value is labelled.
_REBOUND = "rebound "

_ENVIRONMENT = (
    "environment variables are read while the graph is made, and not when it runs: the original"
    " reads them in every call"
)


def _labels(rewrite: Rewrite) -> frozenset[str]:
    """Inputs that not every rewrite is tried on, and this one must be."""
    return _BY_LABEL & set(rewrite.shows)


@dataclasses.dataclass
class Observed:
    """What a facts run of the current text told about one function."""

    facts: FrameFacts
    outcomes: dict[tuple[int, int], tuple[int, int]]
    #: The same by file, of the functions on the way to the break.
    callers: dict[str, FrameFacts] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Step:
    """What it takes to try a rewrite: its texts, and its jobs where the source is right."""

    source: Rung
    before: dict[str, str]
    overlay: dict[str, str]
    avoid: frozenset[int]
    jobs: tuple[Job, ...]


class Trials:
    """Validates rewrites against one recorded program.  ``baseline`` grows with what is learnt."""

    def __init__(
        self,
        bench: Bench,
        baseline: ladder.Baseline,
        regions: Mapping[str, Region],
        options: Options,
        progress: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._bench = bench
        self.baseline = baseline
        self.regions = regions
        self._options = options
        self._progress = progress
        #: By texts, whether state is constant, and further inputs.
        self._under_inductor: dict[_Compiled, Rung] = {}
        #: Whether `last` asks inductor for all rewrites together, so that `attempt` need not.
        self.defers = True
        #: What is tried next, if what is tried now fails, and its run at the recorded calls.
        self._begun: tuple[_Step, Ahead] | None = None
        #: How many of these compilations were given up as too long.
        self._given_up = 0
        #: Inputs that show sizes of 0 and 1: backends that see few inputs see these, too.
        self._also: frozenset[str] = frozenset()
        self._lasting: tuple[str, ...] = ()

    def keep(self, rewrite: Rewrite, region: str, judgement: ladder.Judgement) -> None:
        """Note what an accepted rewrite changes for all later ones."""
        origin = self.baseline.parts.get(region, region)
        parts = {key: self.baseline.parts.get(key, origin) for key in judgement.new_regions}
        self.baseline = dataclasses.replace(
            self.baseline,
            parts={**self.baseline.parts, **parts},
            assumes=tuple(dict.fromkeys((*self.baseline.assumes, *rewrite.assumes))),
        )

    def _text(self, path: str) -> str:
        return self._bench.source(path).text

    def attempt(
        self,
        rewrite: Rewrite,
        site: Site,
        observed: Observed,
        accepted: Mapping[str, str],
        *,
        provisional: bool = False,
        following: Rewrite | None = None,
        may_break: bool = False,
    ) -> ladder.Judgement:
        """Climb the ladder with a rewrite on top of the ``accepted`` texts.

        Where it ``may_break``, the break may stay where it is: what is compared then is the program
        with the break.

        A ``provisional`` judgement may come from the recorded calls alone; it lacks what a run of
        the whole program would add (see `Judgement.whole`).  Its run at these calls shares the
        machine with that of ``following``, the rewrite that is to be tried if this one fails.
        """
        self._progress(f"trying {rewrite.codemod}: {rewrite.title}")
        self._lasting = tuple(item for item in rewrite.assumes if item in _LASTING)
        if may_break:
            self.drop()
            step, ahead = self._step(rewrite, site, accepted, may_break=True), None
        else:
            step, ahead = self._take_up(rewrite, site, accepted)
        if not step.source.passed:
            return ladder.Judgement(Verdict((step.source,)), {}, {}, {})
        if provisional and following is not None and not self._bench.serial:
            ahead = ahead or self._bench.ahead(step.jobs[0])
            self._begin(following, site, accepted)
        try:
            with self._clock.phase("candidates"):
                judgement = self._climb(
                    rewrite, site, observed, accepted, step, ahead, provisional=provisional
                )
        except BaseException:
            self.drop()
            raise
        if judgement.verdict.passed:
            self.drop()
        return judgement

    def drop(self) -> None:
        """End what was begun ahead."""
        if self._begun is not None:
            self._begun[1].drop()
        self._begun = None

    def _begin(self, rewrite: Rewrite, site: Site, accepted: Mapping[str, str]) -> None:
        """Begin a rewrite's run at the recorded calls."""
        step = self._step(rewrite, site, accepted)
        if step.source.passed:
            self._begun = step, self._bench.ahead(step.jobs[0])

    def _take_up(
        self, rewrite: Rewrite, site: Site, accepted: Mapping[str, str]
    ) -> tuple[_Step, Ahead | None]:
        """The steps to try a rewrite, with its run at the recorded calls if that was begun."""
        overlay = {**accepted, **rewrite.edits}
        if self._begun is not None and self._begun[0].overlay == overlay:
            step, ahead = self._begun
            self._begun = None
            return step, ahead
        self.drop()
        return self._step(rewrite, site, accepted), None

    def _step(
        self,
        rewrite: Rewrite,
        site: Site,
        accepted: Mapping[str, str],
        *,
        may_break: bool = False,
    ) -> _Step:
        before = {path: accepted.get(path, self._text(path)) for path in rewrite.edits}
        source = ladder.check_source(before, rewrite.edits, rewrite.touched)
        overlay = {**accepted, **rewrite.edits}
        if source.passed:
            try:
                for path, text in rewrite.edits.items():
                    self._bench.source(path).encode(text)
            except SourceError as error:
                source = Rung("source", False, str(error))
        path = site.path
        avoid = frozenset(ladder.new_lines(before.get(path, ""), rewrite.edits.get(path, "")))
        still = ladder.moved_line(site.source, overlay.get(path, site.source), site.frame.line)
        if still is not None:
            avoid |= {still}
        if may_break:
            avoid = frozenset()
        if not source.passed:
            return _Step(source, before, overlay, avoid, ())
        candidate = self._bench.job(
            "candidate",
            overlay,
            self._observers(overlay),
            avoid=(path, avoid, site.code),
            constant_state="state-is-constant" in (*self.baseline.assumes, *rewrite.assumes),
            sizes=bool({_SIZES, _WIDTHS} & {*rewrite.shows}),
            widths=_WIDTHS in rewrite.shows,
            operators=rewrite.asks if rewrite.settle is not None else "",
            also=_labels(rewrite),
        )
        return _Step(source, before, overlay, avoid, (candidate, self._bench.job("user", overlay)))

    def _climb(
        self,
        rewrite: Rewrite,
        site: Site,
        observed: Observed,
        accepted: Mapping[str, str],
        step: _Step,
        ahead: Ahead | None,
        *,
        provisional: bool,
    ) -> ladder.Judgement:
        before, overlay, avoid, jobs = step.before, step.overlay, step.avoid, step.jobs
        source, path = step.source, site.path
        where = (path, avoid, site.code)

        def judged(candidate: Outcome, user: Outcome) -> ladder.Judgement:
            return ladder.judge(
                source,
                candidate,
                user,
                self.baseline,
                self._options.backends,
                target=self.baseline.parts.get(site.graph_break.region, site.graph_break.region),
                avoid=avoid,
                avoid_path=path,
                avoid_code=site.code,
                assumes=rewrite.assumes,
                keeps_out=any(
                    text.count(_DISABLE) > before[path].count(_DISABLE)
                    for path, text in rewrite.edits.items()
                ),
            )

        def goes_on(candidate: Outcome) -> bool:
            # What the candidate's own run refutes needs no run as the user compiles it.
            return ladder.wants_inherent(candidate) or judged(candidate, Outcome([])).verdict.passed

        user = Outcome([])
        outcome = None
        if provisional:
            outcome = ahead.outcome.result() if ahead else self._bench.at_calls(jobs[0])
        whole = outcome is None
        if outcome is None:
            outcome, user = self._bench.raced(jobs[0], jobs[1], goes_on)
        elif goes_on(outcome):
            user = self._bench.at_calls(jobs[1]) or user
        if self.baseline.inherent is None and ladder.wants_inherent(outcome):
            plain = self._bench.once(self._bench.job("candidate", {}, every=True))
            inherent = ladder.inherent_differences(plain)
            self.baseline = dataclasses.replace(self.baseline, inherent=inherent)
        judgement = judged(outcome, user)
        judgement.whole = whole
        if judgement.verdict.passed:
            key = self.baseline.parts.get(site.graph_break.region, site.graph_break.region)

            def sides() -> tuple[str, list[branches.Forced]]:
                plan = self._plan(rewrite, site, observed, overlay, {})[2]
                new, tests = overlay.get(site.path, ""), self._tests(rewrite, site, observed)
                return site.path, plan or branches.as_they_stand(site.source, new, tests)

            self._shown(judgement, rewrite, outcome, accepted, overlay, key, sides)
        # What is unsafe in any case, and not asked for, need not be compiled for long.
        wanted = self._options.unsafe_fixes or (
            rewrite.safety is Safety.SAFE and not judgement.verdict.caveats
        )
        passed = judgement.verdict.passed and wanted
        deferred = self.defers and not judgement.crowded
        if passed and not deferred and self._wants_inductor(before, rewrite.edits):
            with self._clock.phase("inductor"):
                self._inductor(judgement, overlay, where, rewrite)
        crowded = ladder.crowded(judgement)
        if judgement.verdict.passed and crowded is not None:
            judgement.verdict = judgement.verdict.with_rung(crowded)
        if judgement.verdict.passed:
            with self._clock.phase("branches"):
                self._branches(judgement, rewrite, site, observed, accepted, overlay, outcome)
        if judgement.verdict.passed and wanted:
            with self._clock.phase("branches"):
                self._unrun(judgement, site, observed, accepted, overlay)
        if judgement.verdict.passed:
            with self._clock.phase("constants"):
                self._constants(judgement, rewrite, site, before, accepted, overlay)
        if judgement.verdict.passed:
            sources = {**site.sources, **accepted}
            self._unseen(judgement, rewrite, before, sources, site.entry)
        return judgement

    def _shown(
        self,
        judgement: ladder.Judgement,
        rewrite: Rewrite,
        outcome: Outcome,
        accepted: Mapping[str, str],
        overlay: dict[str, str],
        key: str,
        sides: Callable[[], tuple[str, list[branches.Forced]]],
    ) -> None:
        """Whether the run showed what the rewrite asks for, in the region that it is about.

        ``sides`` gives those of the rewritten conditions, which may decide how often a loop runs.
        """
        if {_SIZES, _WIDTHS} & {*rewrite.shows}:
            texts = {**accepted, **overlay} if _WIDTHS in rewrite.shows else {}
            rung, also = self._decided(outcome, overlay, texts)
            if rung.caveats and rewrite.safety is Safety.SAFE and not judgement.verdict.caveats:
                with self._clock.phase("sizes"):
                    forced: list[Outcome] = []
                    open_cases = len(rung.caveats)
                    rung = self._forced_sizes(rung, outcome, accepted, overlay, texts, forced)
                    # More caveats than before: something differs, and that is what is said.
                    if 0 < len(rung.caveats) <= open_cases and ladder.unshown_sources(outcome):
                        path, plan = sides()
                        if plan:
                            rung = self._forced_sides(
                                rung, outcome, accepted, overlay, texts, forced, path, plan
                            )
            judgement.verdict = judgement.verdict.with_rung(rung)
            self._also |= also
        labels = _labels(rewrite)
        if labels:
            judgement.verdict = judgement.verdict.with_rung(ladder.shown(outcome, key, labels))

    def _unseen(
        self,
        judgement: ladder.Judgement,
        rewrite: Rewrite,
        before: Mapping[str, str],
        sources: Mapping[str, str],
        entry: str,
    ) -> None:
        """What only the text of the whole project tells."""
        found = [
            text
            for path, new in rewrite.edits.items()
            for text in (
                *unseen.caveats(
                    before[path], new, rewrite.touched.get(path, ()), self._bench.project
                ),
                *unseen.taken_names(path, before[path], new, self._bench.project),
                *unseen.lost_dispatch(before[path], new, self._bench.project),
                *unseen.given_no_tensors(
                    before[path], rewrite.touched.get(path, ()), new, self._bench.project
                ),
            )
        ]
        for path, new in rewrite.edits.items():
            found += unseen.loaded_twice(
                path, before[path], new, self._bench.project, is_entry=path == entry
            )
        if reads_environment(before, rewrite.edits, sources):
            found.append(_ENVIRONMENT)
        limits = [
            text
            for path, new in rewrite.edits.items()
            for text in unseen.limits(before[path], new, rewrite.touched.get(path, ()))
        ]
        if found or limits:
            rung = Rung("project", True, "", tuple(dict.fromkeys(found)), tuple(limits))
            judgement.verdict = judgement.verdict.with_rung(rung)

    def whole(self, edits: Mapping[str, str]) -> ladder.Judgement:
        """Climb the ladder with texts whose rewrites were validated one by one elsewhere."""
        before = {path: self._text(path) for path in edits}
        everything = {path: (Span(1, 0, text.count("\n") + 2, 0),) for path, text in before.items()}
        source = ladder.check_source(before, edits, everything)
        if not source.passed:
            return ladder.Judgement(Verdict((source,)), {}, {}, {})
        overlay = dict(edits)
        jobs = [
            self._bench.job("candidate", overlay, self._observers(overlay)),
            self._bench.job("user", overlay),
        ]
        candidate, user = self._bench.together(*jobs)
        if ladder.wants_inherent(candidate):
            plain = self._bench.once(self._bench.job("candidate", {}, every=True))
            inherent = ladder.inherent_differences(plain)
            self.baseline = dataclasses.replace(self.baseline, inherent=inherent)
        return ladder.judge(
            source,
            candidate,
            user,
            self.baseline,
            self._options.backends,
            target="",
            avoid=frozenset(),
            avoid_path="",
            avoid_code="",
        )

    def measure(self, edits: Mapping[str, str]) -> dict[str, Payoff]:
        """By region: what the texts are worth to the program as the user compiles it."""
        self._progress("measuring the program without and with the patches")
        overlay = dict(edits)
        observers = self._observers(overlay)
        before = self._bench.job("measure", {})
        after = self._bench.job("measure", overlay, observers)
        return payoff.payoffs(*self._bench.in_turns(before, after))

    def last(self, overlay: dict[str, str]) -> Rung | None:
        """The whole set of patches under inductor, if that is what the user compiles with.

        Graphs that a patch merges can meet a fault of the compiler that none of their parts met.
        None where there is nothing to ask.  What does not end in time says nothing, but of patches
        that bring operators.
        """
        if not self._is_for_inductor():
            return None
        operators = self.brings_operators(overlay)
        limit = self._patience() if operators else min(_LAST * self._bench.load, self._patience())
        self._progress("compiling all patches with inductor")
        with self._clock.phase("inductor"):
            rung, late = self._brief(overlay, None, (), limit)
        if late and not operators:
            return Rung("inductor", None, f"did not end within {limit:g} s")
        return rung

    def _patience(self) -> float:
        # On a machine with other work, everything takes longer: the verdict must be the same.
        given = self._options.inductor_timeout
        load = self._bench.load if given == Options.inductor_timeout else 1.0
        return min(given * load, self._options.timeout)

    def brings_operators(self, overlay: Mapping[str, str]) -> bool:
        """Whether texts bring operators that inductor has been seen to get wrong."""
        return self._wants_inductor({path: self._text(path) for path in overlay}, overlay)

    def _is_for_inductor(self) -> bool:
        """Whether the user compiles with inductor, and it can be asked here."""
        if not self._options.inductor or "inductor" in self._options.backends:
            return False
        backends = {region.options.get("backend", "inductor") for region in self.regions.values()}
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
        return any("inductor" in name for name in backends) and bool(compiler)

    def _wants_inductor(self, before: Mapping[str, str], edits: Mapping[str, str]) -> bool:
        """Whether the rewrite brings operators that inductor has been seen to get wrong."""
        return self._is_for_inductor() and any(
            len(_OPERATORS.findall(text)) > len(_OPERATORS.findall(before.get(path, "")))
            for path, text in edits.items()
        )

    def _inductor(
        self,
        judgement: ladder.Judgement,
        overlay: dict[str, str],
        where: tuple[str, frozenset[int], str],
        rewrite: Rewrite,
    ) -> None:
        """A short look at the patched program under inductor, with gradients.

        The final check of texts that were tried alone would repeat it to the letter.
        """
        limit = self._patience()
        if self._given_up >= _GIVE_UP and not self._known(overlay, rewrite.assumes):
            why = f"was not begun, {_GIVE_UP} others did not end within {limit:g} s"
            judgement.verdict = judgement.verdict.with_rung(ladder.not_tried("inductor", why))
            return
        self._progress(f"compiling {rewrite.codemod}'s patch with inductor")
        rung, _ = self._brief(overlay, where, rewrite.assumes, limit)
        judgement.verdict = judgement.verdict.with_rung(rung)

    def _known(self, overlay: Mapping[str, str], assumes: Sequence[str]) -> bool:
        constant = "state-is-constant" in (*self.baseline.assumes, *assumes)
        return (frozenset(overlay.items()), constant, self._also) in self._under_inductor

    def _brief(
        self,
        overlay: dict[str, str],
        where: tuple[str, frozenset[int], str] | None,
        assumes: Sequence[str],
        limit: float,
    ) -> tuple[Rung, bool]:
        """Some calls under inductor, with gradients; whether they took too long.

        Texts that were compiled before need not be again.
        """
        assumed = (*self.baseline.assumes, *assumes)
        constant = "state-is-constant" in assumed
        key = (frozenset(overlay.items()), constant, self._also)
        if key in self._under_inductor:
            return self._under_inductor[key], False

        def run(texts: dict[str, str], *, broken: bool = False) -> Outcome:
            job = self._bench.job(
                "candidate",
                texts,
                self._observers(texts),
                # The original is to break where it does.
                avoid=where if where and texts else ("", frozenset(), ""),
                constant_state=constant,
                backends=("inductor",),
                brief=True,
                broken=broken,
                also=self._also,
            )
            return self._bench.once(job, limit)

        outcome = run(overlay)
        late = ladder.is_late(outcome)
        self._given_up += late
        rung = ladder.one_backend(outcome, None, self.baseline, "inductor", limit, assumed)
        if rung.passed is False:
            # What inductor does to the original, broken graphs and all, is no fault of the patch.
            plain = run({}, broken=True)
            rung = ladder.one_backend(outcome, plain, self.baseline, "inductor", limit, assumed)
        if rung.passed and not self._also <= ladder.labels(outcome, "inductor"):
            rung = dataclasses.replace(rung, caveats=(*rung.caveats, _SIZES_NOT_TRIED))
        self._under_inductor[key] = rung
        return rung, late

    def cuts(self, rewrite: Rewrite) -> bool:
        """Whether a rewrite compiles less than before, as far as its text tells."""
        for path, new in rewrite.edits.items():
            if new.count(_DISABLE) > self._text(path).count(_DISABLE):
                return True
        return bool(self._observers(dict(rewrite.edits)))

    def _observers(self, overlay: dict[str, str]) -> list[Instrument]:
        """Watch functions that a rewrite no longer compiles (it compiles their halves)."""
        result = []
        for key, region in self.regions.items():
            text = overlay.get(region.path)
            if text is None or "#" in key or "<" in region.name:
                continue
            if _still_compiled(self._text(region.path), text, region):
                continue
            look = Instrument(region.path, "observe", qualname=region.name, value=region.bound)
            result.append(look)
        return result

    def _tests(self, rewrite: Rewrite, site: Site, observed: Observed) -> list[Span]:
        """The rewritten conditions that tensors decide."""
        spans = rewrite.touched.get(site.path, ())
        tests = [
            span
            for span in branches.rewritten_tests(site.source, spans)
            if _decided_by_tensor(span, observed.facts, site)
            and not _asks_for_no_value(span, site.source)
        ]
        return tests[:1] if "inner-tests-idle" in rewrite.assumes else tests

    def _plan(
        self,
        rewrite: Rewrite,
        site: Site,
        observed: Observed,
        overlay: Mapping[str, str],
        outcomes: Mapping[tuple[int, int], tuple[int, int]],
    ) -> tuple[int, int, list[branches.Forced]]:
        """See `gbfix.branches.plan_branches`; without ``outcomes``, all sides are in the plan."""
        tests = self._tests(rewrite, site, observed)
        tensors = {span for span, fact in observed.facts.expressions.items() if fact.is_tensor}
        deciding = branches.deciding_parts(site.source, tests, tensors)
        return branches.plan_branches(
            site.source,
            overlay.get(site.path, site.source),
            rewrite.touched.get(site.path, ()),
            outcomes,
            tests,
            site.span(site.node),
            deciding,
        )

    def _branches(
        self,
        judgement: ladder.Judgement,
        rewrite: Rewrite,
        site: Site,
        observed: Observed,
        accepted: Mapping[str, str],
        overlay: dict[str, str],
        plain: Outcome | None = None,
    ) -> None:
        """Rung 5: both sides of every rewritten condition ran, by inputs or by force.

        ``plain`` is the outcome of the candidate as it is, nothing forced.
        """
        if "one-sided" in rewrite.assumes:
            return
        path = site.path
        seen, total, plan = self._plan(rewrite, site, observed, overlay, observed.outcomes)
        if _SHORTCUT in rewrite.shows:
            # By force, the original would take the short way for what it is not meant for.
            tests = self._tests(rewrite, site, observed)
            shown = ladder.shortcut(rewrite.touched.get(path, ()), observed.outcomes, tests)
            judgement.verdict = judgement.verdict.with_rung(shown)
            return
        if not total:
            return
        failures: list[str] = []
        limits: dict[str, None] = {}
        for forced in plan:
            problem = self._force(forced, path, accepted, overlay, plain or Outcome([]), limits)
            if problem and self._bench.is_at_calls:
                with self._bench.from_the_start():
                    problem = self._force(
                        forced, path, accepted, overlay, plain or Outcome([]), limits
                    )
            if problem is None:
                seen += 1
            elif problem:
                failures.append(problem)
        caveats: tuple[str, ...] = ()
        # What is only moved does what it did, also where it never ran.
        moved = "same-questions" in rewrite.assumes
        if seen < total and not failures and not moved:
            caveats = (f"{total - seen} of {total} sides of the rewritten conditions never ran",)
        detail = failures[0] if failures else f"{seen} of {total} ran"
        rung = Rung("branches", not failures, detail, caveats, tuple(limits))
        judgement.verdict = dataclasses.replace(
            judgement.verdict.with_rung(rung), branches=(seen, total)
        )

    def _unrun(
        self,
        judgement: ladder.Judgement,
        site: Site,
        observed: Observed,
        accepted: Mapping[str, str],
        overlay: dict[str, str],
    ) -> None:
        """What no call ran, as Python decides it, and the patch reaches: both programs run it."""
        path, new = site.path, overlay.get(site.path, site.source)
        tests = [
            span
            for span, fact in observed.facts.expressions.items()
            if fact.is_tensor or _decided_by_tensor(span, observed.facts, site)
        ]
        changed = ladder.removed_lines(site.source, new)
        plan = unrun.to_force(site.source, new, site.frame.line, changed, observed.outcomes, tests)
        caveats = []
        limits: dict[str, None] = {}
        for text, forced in plan[:_UNRUN]:
            problem = self._force(forced, path, accepted, overlay, Outcome([]), {}, in_python=True)
            if problem and self._bench.is_at_calls:
                # A call that begins where it was recorded does not say that the original fails.
                with self._bench.from_the_start():
                    problem = self._force(
                        forced, path, accepted, overlay, Outcome([]), {}, in_python=True
                    )
            if problem and (
                unrun.contradicts(problem, {**site.sources, **accepted})
                or unrun.is_made_otherwise(text, problem)
            ):
                limits[
                    f"gbfix could not test `{text}` as {forced.value}: this object was built for"
                    " the other case"
                ] = None
            elif problem:
                problem = problem.partition(": ")[2]
                caveats.append(f"no call has shown `{text}` {forced.value}; there, {problem}")
        if plan:
            known = judgement.verdict.rung("unrun")  # of another file
            caveats = [*(known.caveats if known else ()), *caveats]
            detail = "forced in Python's conditions"
            said = (*(known.limits if known else ()), *limits)
            rung = Rung("unrun", True, detail, tuple(caveats), said)
            judgement.verdict = judgement.verdict.with_rung(rung)

    def _decided(
        self,
        plain: Outcome,
        overlay: Mapping[str, str],
        texts: Mapping[str, str],
        forced: Sequence[Outcome] = (),
        limits: Sequence[str] = (),
    ) -> tuple[Rung, frozenset[str]]:
        """What was seen of sizes that data decides; ``texts`` may have masks of lengths."""
        alike = functools.partial(self._pick_alike, overlay)
        widths = {
            f"{path}:{line}": lengths
            for path, text in texts.items()
            for line, lengths in mask_widths(text).items()
        }
        return ladder.decided_sizes(plain, forced, limits, alike, widths)

    def _forced_sizes(
        self,
        rung: Rung,
        plain: Outcome,
        accepted: Mapping[str, str],
        overlay: dict[str, str],
        texts: Mapping[str, str],
        forced: list[Outcome],
    ) -> Rung:
        """Sizes of 0 and of 1 that no input showed: what they are made of is given these values.

        The runs come to those that are ``forced``.
        """
        limits: dict[str, None] = {}
        for source in ladder.unshown_sources(plain)[:_SOURCES]:
            path, _, line = source.rpartition(":")
            if not path or not os.path.isabs(path):
                continue
            new = overlay.get(path, self._text(path))
            old = accepted.get(path, self._text(path))
            before = ladder.moved_line(new, old, int(line))
            places = forced_sizes.in_both(
                forced_sizes.places_on(old, before) if before else (),
                forced_sizes.places_on(new, int(line)),
            )
            for value in (False, True) if all(places) else ():
                found = self._with_size(path, places, value, accepted, overlay, limits)
                if isinstance(found, str) and self._bench.is_at_calls:
                    with self._bench.from_the_start():
                        found = self._with_size(path, places, value, accepted, overlay, limits)
                if isinstance(found, str):
                    where = f"line {before} of {os.path.basename(path)}"
                    text = f"where the data decides on {int(value)} on {where}, {found}"
                    return dataclasses.replace(rung, caveats=(text, *rung.caveats))
                forced += [found] if found is not None else []
        if not forced:
            return rung
        return self._decided(plain, overlay, texts, forced, tuple(limits))[0]

    def _forced_sides(
        self,
        rung: Rung,
        plain: Outcome,
        accepted: Mapping[str, str],
        overlay: dict[str, str],
        texts: Mapping[str, str],
        forced: list[Outcome],
        path: str,
        sides: Sequence[branches.Forced],
    ) -> Rung:
        """The same, of sizes that are made of how often a loop runs: its condition is forced."""
        limits: dict[str, None] = {}
        for side in sides[:_SOURCES]:
            action = "force" if side.moved else "force-call"
            new = [_instrument(path, action, it, side.value) for it in (side.call, *side.again)]
            found = self._with_looks(
                [_instrument(path, "force", side.test, side.value)], new, accepted, overlay, limits
            )
            if isinstance(found, str):
                text = f"where a rewritten condition is forced {side.value}, {found}"
                return dataclasses.replace(rung, caveats=(text, *rung.caveats))
            forced += [found] if found is not None else []
        return self._decided(plain, overlay, texts, forced, tuple(limits))[0]

    def _pick_alike(self, overlay: Mapping[str, str], places: tuple[str, ...]) -> bool:
        """Whether what stands at the places picks by one mask."""
        paths = {place.rpartition(":")[0] for place in places}
        lines = [place.rpartition(":")[2] for place in places]
        if len(paths) != 1 or not all(map(str.isdigit, lines)):
            return False
        (path,) = paths
        text = overlay.get(path) or self._text(path)
        return forced_sizes.pick_alike(text, [int(line) for line in lines])

    def _with_size(
        self,
        path: str,
        places: tuple[list[Span], list[Span]],
        value: bool,
        accepted: Mapping[str, str],
        overlay: dict[str, str],
        limits: dict[str, None],
    ) -> Outcome | str | None:
        """What the patched program does with a number, or a selection, of 0 or of 1: as a text
        where that is something else than the original, None where the two cannot be compared.
        """
        old, new = ([_instrument(path, "size", it, value) for it in each] for each in places)
        self._progress(f"letting the data decide on {int(value)} where no input does")
        return self._with_looks(old, new, accepted, overlay, limits)

    def _with_looks(
        self,
        old: Sequence[Instrument],
        new: Sequence[Instrument],
        accepted: Mapping[str, str],
        overlay: dict[str, str],
        limits: dict[str, None],
    ) -> Outcome | str | None:
        """The same, where values are forced in both programs."""
        golden = self._bench.job("golden", accepted, old, values_only=True)
        if branches.ends_with(self._bench.once(golden)) is None:
            return None
        looks = [*self._observers(overlay), *new]
        found: Outcome | None = None
        for backends, brief in ((self._options.backends[:2], False), (("inductor",), True)):
            if brief and not self._is_for_inductor():
                continue
            second = self._bench.once(
                self._bench.job(
                    "candidate",
                    overlay,
                    looks,
                    golden=golden.directory,
                    constant_state="state-is-constant" in self.baseline.assumes,
                    backends=backends,
                    brief=brief,
                    sizes=not brief,
                ),
                self._patience() if brief else 0.0,
            )
            judged, other = branches.without_other_errors(second)
            if other:
                limits[branches.BOTH_FAIL] = None
            baseline = self.baseline
            if any(event.kind == "region-error" for event in second.of(Failed)):
                # The call itself was compared with the original's, error and all.
                baseline = _that_raises(baseline, second)
                rest = [event for event in judged.events if not isinstance(event, Failed)]
                judged = dataclasses.replace(judged, events=rest, ended="ok")
            if brief:
                limit = self._patience()
                last = ladder.one_backend(judged, None, baseline, "inductor", limit, ())
                if last.passed is None:
                    return None
                failure = "" if last.passed else f"inductor: {last.detail}"
                caveats = last.caveats
            else:
                verdict = self._values(judged, backends, baseline)
                failure, caveats = verdict.failure or "", verdict.caveats
            if failure or caveats:
                return failure or caveats[0]
            found = found or second
        return found

    def _constants(
        self,
        judgement: ladder.Judgement,
        rewrite: Rewrite,
        site: Site,
        before: Mapping[str, str],
        accepted: Mapping[str, str],
        overlay: dict[str, str],
    ) -> None:
        """What the patch reads once, or wrote out as a value: would another value still be seen?

        The program did not change it while it ran; whether it ever does, nobody here knows.
        """
        if _PROVED & {*rewrite.assumes}:
            return
        sources = {**site.sources, **accepted}
        names = lost_reads(before, rewrite.edits, sources)
        if not names:
            return
        self._progress("giving other values to what the patch reads no more")
        golden = self._bench.job("golden", accepted, values_only=True, rebind=names)
        first = self._bench.once(golden)
        if first.ended not in ("ok", "stopped") or any(not event.key for event in first.of(Failed)):
            return
        # What runs while a graph is made shows only where the graph runs without it.
        backends = ("aot_eager",) if frozen_reads(before, rewrite.edits) else ()
        second = self._bench.once(
            self._bench.job(
                "candidate",
                overlay,
                self._observers(overlay),
                golden=golden.directory,
                backends=backends,
                rebind=names,
            )
        )
        judgement.verdict = judgement.verdict.with_rung(
            _constants_rung(second, self._values(second, backends))
        )

    def _force(
        self,
        forced: branches.Forced,
        path: str,
        accepted: Mapping[str, str],
        overlay: dict[str, str],
        plain: Outcome,
        limits: dict[str, None],
        *,
        in_python: bool = False,
    ) -> str | None:
        """Run both programs with one condition forced: None when they agree, what differs if not,
        an empty string where the forced programs could not be compared.

        Where Python decides (``in_python``), an exception says that it could not be so.
        """
        backends = () if in_python else self._options.backends[:2]
        self._progress("forcing a branch that no input reached")
        original = _instrument(path, "force", forced.test, forced.value)
        action = "force" if forced.moved else "force-call"
        patched = [
            _instrument(path, action, place, forced.value) for place in (forced.call, *forced.again)
        ]
        golden = self._bench.job("golden", accepted, [original], values_only=True)
        first = self._bench.once(golden)
        ends = branches.ends_with(first)
        if ends is None or (in_python and ends):
            return ""
        second = self._bench.once(
            self._bench.job(
                "candidate",
                overlay,
                [*self._observers(overlay), *patched],
                golden=golden.directory,
                constant_state="state-is-constant" in self.baseline.assumes,
                backends=backends,
            )
        )
        known = branches.without_sizes_that_clash(second, plain)
        if known.events != second.events:
            second = known
            limits[branches.ONE_SIDE_FITS] = None
        baseline = self.baseline
        if ends:
            # A check that is forced to fail ends both programs, with the same exception.
            second = branches.without_end(second, ends)
            baseline = _that_raises(baseline, first)
        verdict = self._values(second, backends, baseline)
        return (verdict.failure and f"forced {forced.value}: {verdict.failure}") or None

    def _values(
        self,
        candidate: Outcome,
        backends: Sequence[str] = (),
        baseline: ladder.Baseline | None = None,
    ) -> Verdict:
        """What a candidate's run alone says, next to a golden run of its own."""
        baseline = dataclasses.replace(
            baseline or self.baseline, stable_output=False, shown_compiled=None
        )
        return ladder.judge(
            Rung("source", True),
            candidate,
            Outcome([]),
            baseline,
            backends,
            target="",
            avoid=frozenset(),
            avoid_path="",
            avoid_code="",
            assumes=self._lasting,
        ).verdict


def _that_raises(baseline: ladder.Baseline, first: Outcome) -> ladder.Baseline:
    """What is known of a program that a forced value lets end with an exception."""
    calls: dict[str, tuple[int, ...]] = {}
    for event in first.of(RegionCalled):
        calls[event.key] = (*calls.get(event.key, ()), event.index)
    raised = {(e.key, e.index) for e in first.of(Failed) if e.kind == "region-error"}
    return dataclasses.replace(baseline, calls=calls, raising=baseline.raising | raised)


def _constants_rung(outcome: Outcome, verdict: Verdict) -> Rung:
    """What differs with other values is a caveat: the program itself did not change them."""
    events = outcome.of(Compared)
    found: dict[str, None] = {}
    if verdict.failure or verdict.caveats:
        labels = [finding.label for event in events for finding in event.findings]
        found = dict.fromkeys(
            label.removeprefix(_REBOUND) for label in labels if label.startswith(_REBOUND)
        )
    caveats = [
        f"`{name}` may change between calls: the original reads it anew, the patch does not"
        for name in found
    ]
    if verdict.failure and not caveats:
        caveats = [f"other values could not be tried: {verdict.failure}"]
    count = sum(event.perturbed for event in events)
    return Rung("constants", True, f"{count} comparisons", tuple(caveats))


def _instrument(path: str, action: str, span: Span, value: bool) -> Instrument:
    return Instrument(
        path, action, span.line, span.column, span.end_line, span.end_column, value=value
    )


def _still_compiled(old: str, new: str, region: Region) -> bool:
    """Whether the region's own decorator, or the call that compiles it, survived the rewrite."""
    if "compile" in _decorators(old, region.name):
        return "compile" in _decorators(new, region.name)
    return _compiles(new, region.name) or not _compiles(old, region.name)


def _compiles(source: str, name: str) -> bool:
    """Whether there is a call like ``torch.compile(name)``, or of a method, of ``self.name``."""
    method = name.rpartition(".")[2] if "." in name else ""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name | ast.Attribute)
        and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) == "compile"
        and bool(node.args)
        and (
            ast.unparse(node.args[0]) == name
            or (isinstance(node.args[0], ast.Attribute) and node.args[0].attr == method)
        )
        for node in ast.walk(tree_of(source))
    )


def _decorators(source: str, qualname: str) -> str:
    """The decorators of a function, as text; empty when it has none or is not there."""
    body: Sequence[ast.AST] = tree_of(source).body
    found: ast.AST | None = None
    for part in qualname.split("."):
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        found = next(
            (node for node in reversed(body) if isinstance(node, kinds) and node.name == part), None
        )
        if found is None:
            return ""
        body = found.body
    assert isinstance(found, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    return " ".join(ast.unparse(item) for item in found.decorator_list)


#: Breaks in a test whose truth no tensor decides: ``if logger.isEnabledFor(...)``.
_NOT_ABOUT_DATA = ("GB0291",)


_NO_VALUE = r"\w+ is (?:not )?None|(?:\w+\.)?is_autocast_enabled\([\w.]*\)"


def _asks_for_no_value(span: Span, source: str) -> bool:
    """Whether a test is ``x is None`` or asks for autocast: what a tensor holds says nothing."""
    if span.line != span.end_line:
        return False
    text = source.split("\n")[span.line - 1][span.column : span.end_column]
    return re.fullmatch(_NO_VALUE, text) is not None


def _decided_by_tensor(span: Span, facts: FrameFacts, site: Site) -> bool:
    """Whether a test's value, or a part of it, was a tensor (or read from one at the site)."""
    # Of an ``if``, it is the test that broke, and no choice within its branches.
    broken = site.node.test if isinstance(site.node, cst.If | cst.While) else site.node
    at_site = span.contains(site.span(broken)) or site.span(broken).contains(span)
    if at_site and site.code not in _NOT_ABOUT_DATA:
        return True
    return any(
        fact.is_tensor
        for place, fact in facts.expressions.items()
        if place == span or (span.contains(place) and fact.shape is not None and place != span)
    )
