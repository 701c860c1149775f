"""Break by break: facts, candidates, verdicts, until the regions are whole or nothing validates."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import libcst as cst

from gbfix import (
    cache,
    catalog,
    ignores,
    ladder,
    packages,
    payoff,
    project_files,
    recording,
    registry,
    sameness,
    usage,
    wording,
    world,
)
from gbfix.analysis.clocks import time_attributes
from gbfix.analysis.own_methods import called_on_self
from gbfix.bench import Bench
from gbfix.clock import Clock
from gbfix.codemod import (
    OTHER_SIZES,
    Advice,
    Codemod,
    RecordedFacts,
    Rewrite,
    Site,
    SiteError,
    discover,
)
from gbfix.errors import Stop
from gbfix.evidence import Finding, Part
from gbfix.patch import unified_diff
from gbfix.rewriting.settings import with_setting
from gbfix.runner import Runner, WorkerError
from gbfix.schema import (
    COMPREHENSIONS,
    Attempt,
    BreakReport,
    ErrorReport,
    Frame,
    FrameFacts,
    GraphBreak,
    Options,
    Patch,
    Report,
    Rung,
    Safety,
    Step,
    Target,
    Verdict,
)
from gbfix.source import project_root
from gbfix.standing import Standing
from gbfix.trial import Observed, Trials
from gbfix.worker.protocol import (
    FactsSeen,
    Instrument,
    Nondeterministic,
    RegionCalled,
)

#: What makes a function an operator.
_OPERATOR = "custom_op("
_WITHHELD = (
    "A patch that keeps one graph is there, but is not safe (see it with --unsafe-fixes); one that "
    "only splits the region was left out."
)
#: A region with more breaks than this is given back as it stands.
MAX_ROUNDS = 60

#: How many other ways are tried for regions that are not whole, and until when (seconds).
_WAYS, _SOON = 2, 60.0

#: How many of the calls that led to a break are looked at beside it, the innermost ones.
_CALLERS = 12


@dataclasses.dataclass
class Accepted:
    """A rewrite that is part of the patch set."""

    rewrite: Rewrite
    found: GraphBreak
    site: Site
    observed: Observed
    verdict: Verdict
    safety: Safety
    #: Less is compiled with it.
    split: bool = False
    #: What was patched when it was accepted.
    before: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def code(self) -> str:
        return self.found.code


@dataclasses.dataclass
class Choice:
    """A rewrite that was taken while others for the same break waited, and all as it was before."""

    region: str
    texts: frozenset[tuple[str, str]]
    before: Any
    overlay: dict[str, str]
    accepted: list[Accepted]
    before_last: dict[str, str]
    unconfirmed: int


class Loop:
    """One run of the engine on one target."""

    def __init__(
        self,
        target: Target,
        options: Options,
        report: Report,
        progress: Callable[[str], None],
        runner: Runner | None = None,
        base: Mapping[str, bytes] | None = None,
    ) -> None:
        self._base = base
        self.target = self._target = target
        self._options = options
        self._report = report
        self._progress = Standing(progress)
        self._overlay: dict[str, str] = {}
        self._accepted: list[Accepted] = []
        self._before_last: dict[str, str] = {}
        self._entry = ""
        #: The files that did not run and import one that did: looked at, and left as they are.
        self._beside: Mapping[str, str] | None = None
        project_files.texts.cache_clear()  # a language server lives on while files change
        self._shared = runner
        self._selection = _Selection(options)
        self._ignored_breaks: set[tuple[str, int, str]] = set()
        #: Whether rewrites may be accepted on the word of the recorded calls, and how many were.
        self._provisional = False
        #: Regions with a counter that patches let vary.
        self._counting: set[str] = set()
        self._unconfirmed = 0
        #: How many rewrites that left their break what is tried is to follow.
        self._preparing = 0
        #: Texts that passed and are unsafe, with whether they split: an option of Dynamo comes up
        #: at every break of its kind, and is tried once.
        self._unsafe: dict[frozenset[tuple[str, str]], tuple[Attempt, bool]] = {}
        #: Rewrites that were taken before others, and texts that are not taken (any more).
        self._choices: list[Choice] = []
        self._left_out: set[frozenset[tuple[str, str]]] = set()
        #: Breaks that every patch only moves.
        self._left_alone: set[tuple[str, str, str, str, int]] = set()
        # Breaks with rewrites that wait for other breaks, and those whose turn has come.
        self._waiting: set[tuple[str, str, str, str, int]] = set()
        self._in_turn: set[tuple[str, str, str, str, int]] = set()
        self._started = time.monotonic()
        #: Regions whose patches are not wanted, as they did not make them faster.
        self._unpaid: frozenset[str] = frozenset()
        self._clock = Clock()
        self._until = time.monotonic() + options.budget if options.budget else float("inf")
        self._out_of_time = False
        report.timings = self._clock.seconds
        if target.kind == "module":
            self._root = str(project_root(target.cwd))
        else:
            path = target.value.partition("::")[0]
            self._entry = os.path.abspath(os.path.join(target.cwd, path))
            self._root = str(project_root(self._entry))

    def run(self) -> None:
        """Fill the report."""
        with self._working():
            if not self._options.check_only:
                self._fix_and_measure()
        self._finish()

    def verify(self, edits: Mapping[str, str]) -> Verdict:
        """How the program with these texts compares with the one on disk; nothing is proposed."""
        with self._working():
            return self._trials.whole(edits).verdict

    @contextlib.contextmanager
    def recorded(self) -> Iterator[tuple[Bench, Trials, recording.Recording]]:
        """The program recorded (from the ``base`` texts), and all that it takes to try others."""
        with self._working():
            yield self._bench, self._trials, self._recorded

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """With the program recorded, and workers at hand."""
        self._progress("starting the worker")
        with contextlib.ExitStack() as stack:
            self._runner = self._shared or stack.enter_context(Runner())
            pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(4))
            self._bench = Bench(
                self._runner, pool, self._target, self._options, self._root, self._base
            )
            stack.callback(self._bench.close)
            try:
                with self._clock.phase("start"):
                    self._report.torch_version = self._runner.wait_ready()
                    if self._shared is not None:
                        self._runner.begin()
                with self._clock.phase("golden"):
                    self._record()
                yield
            except WorkerError as error:
                raise Stop(ErrorReport("worker", f"the worker failed: {error}")) from error

    # -- recording ---------------------------------------------------------------------------

    def _record(self) -> None:
        self._progress("recording the program")
        bench = self._bench
        serial = bench.serial
        wanted = not (serial or self._options.check_only)
        started = time.monotonic()
        golden_job = bench.job("golden", {}, residents=wanted)
        golden, user = bench.together(golden_job, bench.job("user", {}))
        if bench.serial and not serial:
            # The two wrote the same files at the same time: what they saw of them is worth nothing.
            golden_job = bench.job("golden", {})
            golden, user = bench.together(golden_job, bench.job("user", {}))
        bench.golden, bench.recording = golden_job.directory, time.monotonic() - started
        self._recorded = recording.read(golden, user, self._options.timeout)
        user = user.without_traces(self._recorded.raising)
        bench.stop_after = self._recorded.stop_after
        if user.ended == "stopped" or self._recorded.stop_after:
            bench.user_stop_after = len(user.of(RegionCalled))
        self._report.errors += self._recorded.errors
        self._report.regions = list(self._recorded.regions.values())
        baseline = ladder.Baseline(
            calls=self._recorded.calls,
            graphs={(event.key, event.index): event.graphs for event in ladder.user_traces(user)},
            breaks=self._recorded.user_breaks,
            shown=golden.shown,
            stable_output=golden.shown == user.shown,
            shown_compiled=None if golden.shown == user.shown else user.shown,
            ended_by_itself=self._recorded.ended_by_itself,
            unstable={},
            raising=self._recorded.raising,
            refused=frozenset(e.key for e in ladder.user_traces(user) if e.error),
            conditionals={e.key: e.conditionals for e in ladder.user_traces(user)},
            fallbacks=ladder.region_fallbacks(user),
            uncompiled=frozenset(
                (event.key, event.index)
                for event in ladder.user_traces(user)
                if event.breaks and not event.graphs
            ),
            kinds=usage.kinds(golden, list(bench.project.values())),
            usage=usage.usage(golden, self._texts(), self._options.callers),
        )
        bench.settle(self._recorded.calls)
        self._trials = Trials(
            bench, baseline, self._recorded.regions, self._options, self._progress, self._clock
        )
        later = ladder.later_graphs(user)
        sizes, fallbacks = ladder.region_sizes(user), ladder.region_fallbacks(user)
        for key, region in self._recorded.regions.items():
            found = self._breaks(key) if region.status != "error" else ()
            region.breaks_before = region.breaks_after = len(found)
            region.graphs_before = region.graphs_after = self._recorded.graphs.get(key)
            region.recompiles_before = region.recompiles_after = later.get(key)
            region.sizes_before = region.sizes_after = sizes.get(key)
            region.fallbacks_before = region.fallbacks_after = fallbacks.get(key)
            if found:
                region.status = "unfixed"
            for item in found:
                status = "unfixed" if item.site is not None else "outside"
                url = registry.Registry.load().url(item.code)
                self._report.breaks.append(BreakReport(item, status, url=url))
        self._open = {
            key: self._breaks(key)
            for key, region in self._recorded.regions.items()
            if region.status == "unfixed"
        }

    def _breaks(self, key: str) -> tuple[GraphBreak, ...]:
        return self._wanted(self._recorded.breaks(key))

    def _wanted(self, found: Sequence[GraphBreak]) -> tuple[GraphBreak, ...]:
        """The breaks that are looked at: neither deselected nor ignored by a comment."""
        return tuple(item for item in self._selection.breaks(found) if not self._is_ignored(item))

    def _is_ignored(self, found: GraphBreak) -> bool:
        site = found.site
        if site is None or not site.path.endswith(".py"):
            return False
        if not ignores.ignored(self._text(site.path), site.line, found.code):
            return False
        shown = self._as_on_disk(found).site
        self._ignored_breaks.add((site.path, shown.line if shown else site.line, found.code))
        return True

    def _texts(self) -> list[str]:
        """The project's files that the program loaded, as they are."""
        paths = [path for path in self._project_files() if path.endswith(".py")]
        return [self._bench.source(path).text for path in paths]

    def _text(self, path: str) -> str:
        """The text as patched so far."""
        return self._overlay.get(path, self._bench.source(path).text)

    # -- the loop ----------------------------------------------------------------------------

    def _fix_and_measure(self) -> None:
        """Fix what can be; where only what pays is wanted, again without what does not."""
        faster = self._options.only_if_faster
        before = self._snapshot()
        self._fix()
        self._without_moved(before)
        self._under_launcher(before)
        self._without_gain(before)
        if not self._overlay or not (self._options.measure or faster):
            return
        if self._bench.serial:
            for region in self._recorded.regions.values():
                region.note = region.note or "not measured: the program writes files"
            return
        found = self._trials.measure(self._overlay)
        for key, region in self._recorded.regions.items():
            region.payoff = found.get(key)
        slow = [
            key
            for key in payoff.not_worth_it(self._recorded.regions)
            if any(item.found.region == key for item in self._accepted)
        ]
        if not faster or not slow:
            return
        self._go_back(before)
        self._unpaid |= frozenset(slow)
        self._fix()
        for key, region in self._recorded.regions.items():
            region.payoff = found.get(key)
            if key in slow:
                region.note = "patches left out: they do not make it faster"

    def _without_moved(self, before: Any) -> None:
        """Leave out what turned one test of a tensor into another one, which nothing mends.

        A flag that a branch sets becomes a tensor where the branch is taken without Python; what
        asks the flag then breaks where the branch did.
        """
        for attempt in range(MAX_ROUNDS):
            made = next(
                (it for its in self._open.values() for it in its if self._is_made(it)), None
            )
            first = next(
                (it for it in self._accepted if made and _function(it.found) == _function(made)),
                None,
            )
            if made is None or first is None or self._is_late():
                return
            self._left_out.add(frozenset({**first.before, **first.rewrite.edits}.items()))
            if attempt >= _WAYS:
                self._left_alone.add(sameness.place(first.found))
            text = made.site.text.strip() if made.site else ""
            self._go_back(before, "leaving out a patch that only moves its break")
            self._fix()
            self._advise(self._shown(first.found), _MOVED.format(text))

    def _is_made(self, found: GraphBreak) -> bool:
        """Whether what a break asks is a tensor in the patched text, and not in the user's."""
        site = found.site
        if site is None or found.code not in _TESTS or site.path not in self._overlay:
            return False
        there = self._as_on_disk(found).site
        lines = self._bench.source(site.path).text.splitlines()
        if there is None or not 0 < there.line <= len(lines):
            return False
        if lines[there.line - 1].strip() != site.text.strip():
            return False
        with self._clock.phase("facts"):
            look = Instrument(site.path, "facts", there.line)
            outcome = self._bench.once(self._bench.job("facts", {}, [look]))
        kinds = {
            fact.kind
            for seen in outcome.of(FactsSeen)
            if seen.path == site.path
            for span, fact in seen.facts.expressions.items()
            if span.line == span.end_line == there.line
        }
        return bool(kinds) and kinds <= _NUMBERS

    def _without_gain(self, before: Any) -> None:
        """Leave out what leaves a region with as many breaks, and cut into more graphs."""
        worse = [
            key
            for key, region in self._recorded.regions.items()
            if any(item.found.region == key for item in self._accepted)
            and len(self._left(key)) >= region.breaks_before
            and (region.graphs_after or 0) > (region.graphs_before or 0)
        ]
        if not worse or self._out_of_time:
            return
        self._go_back(before, "leaving out patches that only move the breaks")
        self._unpaid = frozenset(worse)
        self._fix()
        for key in worse:
            self._recorded.regions[key].note = "patches left out: they only move the breaks"

    def _left(self, key: str) -> set[tuple[Any, Any]]:
        """The breaks of a region that are open, each once."""
        return {(item.key, sameness.identity(item)) for item in self._open.get(key, ())}

    def _fix(self) -> None:
        """Break by break; where starts of the program are dear, all together are confirmed last."""
        codemods = self._selection.codemods(discover())
        self._provisional = self._bench.is_heavy
        before = self._snapshot()
        given_up: set[tuple[str, str, str, str, int]] = set()
        while True:
            self._rounds(codemods, given_up)
            self._other_ways(codemods)
            if self._unconfirmed and not self._confirm():
                self._go_back(before)
            elif self._as_user_compiles(before):
                return
            given_up.clear()

    def _other_ways(self, codemods: Sequence[Codemod]) -> None:
        """Where a region is not whole, go back to where others waited, and keep what makes it so.

        The first rewrite that holds is taken at each break; it may lead to one that nothing mends
        where another would not have.
        """
        for _ in range(_WAYS):
            late = time.monotonic() - self._started > _SOON
            choice = next((it for it in reversed(self._choices) if self._open.get(it.region)), None)
            if choice is None or late or self._is_late() or self._provisional:
                return
            now, count = self._snapshot(), self._unconfirmed
            kept = self._overlay, self._accepted, self._before_last
            waiting = self._choices[: self._choices.index(choice)]
            self._restore(choice.before)
            self._overlay, self._accepted = dict(choice.overlay), list(choice.accepted)
            self._before_last, self._unconfirmed = dict(choice.before_last), choice.unconfirmed
            self._choices = []
            self._left_out.add(choice.texts)
            self._progress("trying another way")
            self._rounds(codemods, set())
            cut = any(it.split and it.found.region == choice.region for it in self._accepted)
            if not self._open.get(choice.region) and not cut:
                return
            self._restore(now)
            self._overlay, self._accepted, self._before_last = kept
            self._unconfirmed, self._choices = count, waiting

    def _as_user_compiles(self, before: Any) -> bool:
        """The last rung: all patches together, once, under the user's own backend.

        False where each must be asked alone: the loop is to begin again.
        """
        if not self._accepted or self._accepted[-1].verdict.rung("inductor") is not None:
            return True  # each was tried on top of all before it
        rung = self._trials.last(self._overlay)
        if rung is None:
            return True
        fails = rung.passed is False or bool(rung.caveats)
        alone = self._trials.defers and self._trials.brings_operators(self._overlay)
        if fails and alone and not self._is_late():
            self._trials.defers = False
            self._go_back(before, "starting over: each patch alone under inductor")
            return False
        self._settle(rung, before)
        return True

    def _settle(self, rung: Rung, before: Any) -> None:
        """What all patches together did under the user's backend goes to the report."""
        if rung.passed is False:
            caveat = f"with all patches, under inductor: {rung.detail}"
            rung = Rung("inductor", True, "", (caveat,))
        if rung.caveats:
            for item in self._accepted:
                item.safety = Safety.UNSAFE
        last = self._accepted[-1]
        last.verdict = last.verdict.with_rung(rung)
        last_step = dataclasses.replace(self._report.steps[-1], verdict=last.verdict)
        self._report.steps[-1] = last_step
        if not rung.caveats or self._options.unsafe_fixes:
            return
        accepted, overlay = list(self._accepted), dict(self._overlay)
        self._go_back(before, "leaving out patches that differ under inductor")
        for path, after in overlay.items():
            mine = [item for item in accepted if path in item.rewrite.edits]
            patch = self._patch(path, self._text(path), after, mine, last.verdict)
            self._report.unsafe_patches.append(patch)
        regions = {item.found.region for item in accepted}
        for shown in self._report.breaks:
            if shown.graph_break.region in regions:
                self._advise(shown, f"A patch was left out: {rung.caveats[0]}.")

    def _under_launcher(self, before: Any) -> None:
        """All patches together, once, with the ranks that the real launcher starts."""
        if not self._accepted or not self._target.launcher:
            return
        self._progress("confirming all patches under the launcher")
        texts = {path: self._bench.source(path).encode(t) for path, t in self._overlay.items()}
        with self._clock.phase("launcher"):
            limit = min(self._options.timeout, world.PATIENCE * self._bench.load)
            rung = world.confirm(self._target, texts, limit)
        if rung.passed is not False:
            last = self._accepted[-1]
            last.verdict = last.verdict.with_rung(rung)
            last_step = dataclasses.replace(self._report.steps[-1], verdict=last.verdict)
            self._report.steps[-1] = last_step
            return
        regions = {item.found.region for item in self._accepted}
        self._go_back(before, "leaving out patches that differ under the launcher")
        for shown in self._report.breaks:
            if shown.graph_break.region in regions:
                self._advise(shown, f"A patch was left out: {rung.detail}.")

    def _rounds(
        self, codemods: Sequence[Codemod], given_up: set[tuple[str, str, str, str, int]]
    ) -> None:
        self._waiting.clear()
        self._in_turn.clear()
        for _ in range(MAX_ROUNDS):
            found = next(
                (
                    item
                    for key, breaks in self._open.items()
                    for item in breaks
                    if key not in self._unpaid
                    and sameness.place(item) not in given_up | self._left_alone
                ),
                None,
            )
            if found is None and self._waiting - self._in_turn:
                self._in_turn |= self._waiting
                given_up -= self._waiting
                continue
            if found is None or self._is_late():
                return
            self._begin(found, given_up)
            with self._bench.due(self._until):
                fixed = self._fix_one(found, codemods)
            self._progress.done()
            if fixed:
                # What failed before may work on the new text.
                given_up.clear()
                self._waiting.clear()
                self._in_turn.clear()
            else:
                given_up.add(sameness.place(found))

    def _begin(self, found: GraphBreak, given_up: set[tuple[str, str, str, str, int]]) -> None:
        """Say which break comes now, and how many there are to come."""
        shown = self._shown(found)
        number = next((n for n, item in enumerate(self._report.breaks, 1) if item is shown), 0)
        places = {
            sameness.place(item)
            for key, breaks in self._open.items()
            for item in breaks
            if key not in self._unpaid
        }
        where = f" at {os.path.basename(found.site.path)}:{found.site.line}" if found.site else ""
        total, still_open = len(self._report.breaks), len(places - given_up)
        self._progress.at(number, total, still_open, f"{found.code}{where}")

    def _is_late(self) -> bool:
        """Whether the budget is spent: what is proved stays, and nothing new is begun."""
        if time.monotonic() < self._until:
            return False
        self._out_of_time = True
        return True

    def _confirm(self) -> bool:
        """Run the whole program with all that was accepted; whether that agrees."""
        last = self._accepted[-1]
        self._progress("confirming all patches from the start")
        accepted = self._before_last
        judgement = self._trials.attempt(last.rewrite, last.site, last.observed, accepted)
        if not judgement.verdict.passed:
            return False
        if _safety(last.rewrite, judgement.verdict) is not last.safety:
            return False
        last.verdict = judgement.verdict
        self._report.steps[-1] = dataclasses.replace(
            self._report.steps[-1], verdict=judgement.verdict
        )
        self._unconfirmed = 0
        self._take_up(judgement)
        return True

    def _snapshot(self) -> Any:
        """All that the loop changes, to start over from."""
        state = (vars(self._report), self._recorded, self._open, self._trials.baseline)
        return copy.deepcopy(state)

    def _go_back(
        self,
        before: Any,
        why: str = "starting over: the whole program does not agree with its recorded calls",
    ) -> None:
        """Forget what was accepted since then."""
        self._progress(why)
        self._restore(before)
        self._overlay.clear()
        self._accepted.clear()
        self._ignored_breaks.clear()
        self._choices.clear()
        self._provisional = False
        self._unconfirmed = 0

    def _restore(self, before: Any) -> None:
        report, self._recorded, self._open, self._trials.baseline = copy.deepcopy(before)
        vars(self._report).update(report)
        self._report.timings = self._clock.seconds
        self._trials.regions = self._recorded.regions

    def _entries(self, found: GraphBreak) -> list[BreakReport]:
        """The report's open entries for a break, wherever patches have moved it."""
        waiting = [shown for shown in self._report.breaks if shown.status != "fixed"]
        return sameness.entries(waiting, found, self._as_on_disk(found))

    def _fix_one(self, found: GraphBreak, codemods: Sequence[Codemod]) -> bool:
        """Try to remove one break; whether a rewrite was accepted."""
        shown = self._shown(found)
        site_frame = found.site
        if site_frame is None or not site_frame.path.endswith(".py"):
            return False
        answering = [item for item in codemods if found.code in item.codes]
        if not answering:
            return False
        observed = self._observe(found)
        site = self._site_of(found, site_frame, observed, shown)
        if site is None:
            return False
        rewrites = self._without_waiting(found, self._propose(site, answering, shown))
        withheld = whole = False
        moved: tuple[Accepted, ladder.Judgement] | None = None
        for number, proposed in enumerate(rewrites):
            rewrite = self._varied(found.region, site, proposed)
            after = [self._varied(found.region, site, it) for it in rewrites[number + 1 :][:1]]
            if self._is_late():
                break
            texts = frozenset({**self._overlay, **rewrite.edits}.items())
            if texts in self._left_out or texts in self._unsafe:
                whole = self._again(texts, rewrite, shown) or whole
                continue
            judgement = self._trials.attempt(
                rewrite,
                site,
                observed,
                self._overlay,
                provisional=self._provisional,
                # The first holds more often than not: the machine is for it alone.
                following=(*after, None)[0] if number else None,
            )
            rewrite, judgement = self._with_sizes(rewrite, judgement, site, observed)
            rewrite, judgement = self._with_counters(rewrite, judgement, site, observed)
            verdict = judgement.verdict
            safety = _safety(rewrite, verdict)
            accepted = verdict.passed and (safety is Safety.SAFE or self._options.unsafe_fixes)
            if accepted and whole and judgement.split:
                # There is a patch that keeps one graph, though not by default: less compiled code
                # is no better.
                accepted = False
                self._advise(shown, _WITHHELD)
            reason = verdict.failure or "; ".join((*verdict.caveats, *rewrite.notes)[:2])
            attempt = Attempt(rewrite.codemod, rewrite.title, verdict.passed, reason, safety)
            _add_attempt(shown, attempt)
            if accepted:
                # What stays traceable comes first: an operator or an option may take what is left.
                last = self._comes_last(rewrite)
                if moved is not None and last and not self._comes_last(moved[0].rewrite):
                    break
                # A break that is only put off may be done away with in two steps, too.
                last = last or bool(judgement.next_breaks.get(found.region))
                first = [item for item in rewrites[:number] if item.prepares and last]
                if self._in_two_steps(found, site, observed, first, codemods):
                    return True
                shown.codemod = rewrite.codemod
                accepted_one = Accepted(
                    rewrite, found, site, observed, verdict, safety, judgement.split
                )
                uncovers = any(it.uncovers for it in answering if it.name == rewrite.codemod)
                if not uncovers and self._only_moves(found, judgement):
                    # Another rewrite may do away with it; one that prepares is none by itself.
                    moved = moved or (None if rewrite.prepares else (accepted_one, judgement))
                    continue
                self._note_choice(accepted_one, rewrites[number + 1 :])
                self._accept(accepted_one, judgement)
                return True
            if verdict.passed and safety is Safety.UNSAFE:
                self._unsafe[texts] = attempt, judgement.split
            # An operator runs as much in Python as what stands between parts: these are as good.
            whole = whole or (verdict.passed and not (judgement.split or self._wraps(rewrite)))
            if verdict.passed and not withheld:
                withheld = True
                unsafe = Accepted(rewrite, found, site, observed, verdict, Safety.UNSAFE)
                self._withhold(unsafe)
        if moved is not None:
            shown.codemod = moved[0].rewrite.codemod
            self._note_choice(moved[0], [it for it in rewrites if it is not moved[0].rewrite])
            self._accept(*moved)
            return True
        preparing = [rewrite for rewrite in rewrites if rewrite.prepares]
        return self._in_two_steps(found, site, observed, preparing, codemods)

    def _without_waiting(self, found: GraphBreak, rewrites: list[Rewrite]) -> list[Rewrite]:
        """The rewrites whose turn it is: some wait until the region's other breaks were tried."""
        place = sameness.place(found)
        others = [
            item for item in self._open.get(found.region, ()) if sameness.place(item) != place
        ]
        waiting = [it for it in rewrites if it.waits or self._holds_breaks(it, found, others)]
        if not others or not waiting:
            return rewrites
        if place in self._in_turn:
            return waiting  # the others were tried on these texts
        self._waiting.add(place)
        return [item for item in rewrites if item not in waiting]

    def _holds_breaks(
        self, rewrite: Rewrite, found: GraphBreak, others: Sequence[GraphBreak]
    ) -> bool:
        """Whether the branches that a rewrite makes hold other breaks: no branch can have any."""
        if found.site is None or not self._brings(rewrite, _BRANCHES):
            return False
        if self._wraps(rewrite):
            return False  # the operator that comes beside the branches takes what breaks in them
        lines = {
            line
            for path, spans in rewrite.touched.items()
            if path == found.site.path
            for span in spans
            for line in range(span.line, span.end_line + 1)
        }
        return any(
            frame.path == found.site.path and frame.line in lines - {found.site.line}
            for other in others
            if other.code not in _BRANCHED
            for frame in other.frames
        )

    def _again(
        self, texts: frozenset[tuple[str, str]], rewrite: Rewrite, shown: BreakReport
    ) -> bool:
        """Whether a text that was met before keeps one graph, though not by default."""
        if texts not in self._unsafe:
            return False
        before, split = self._unsafe[texts]
        _add_attempt(shown, before)
        return not (split or self._wraps(rewrite))

    def _note_choice(self, taken: Accepted, others: Sequence[Rewrite]) -> None:
        """Remember what there was before a rewrite that is taken where others wait."""
        if not others or self._preparing:
            return
        self._choices.append(
            Choice(
                taken.found.region,
                frozenset({**self._overlay, **taken.rewrite.edits}.items()),
                self._snapshot(),
                dict(self._overlay),
                list(self._accepted),
                dict(self._before_last),
                self._unconfirmed,
            )
        )

    def _site_of(
        self, found: GraphBreak, site_frame: Frame, observed: Observed, shown: BreakReport
    ) -> Site | None:
        try:
            return Site(
                site_frame.path,
                self._text(site_frame.path),
                found,
                RecordedFacts(observed.facts),
                region=sameness.moved_region(
                    self._recorded.regions.get(found.region),
                    lambda path: self._bench.source(path).text,
                    self._overlay,
                ),
                sources=self._sources(),
                entry=self._entry,
                elsewhere={path: RecordedFacts(facts) for path, facts in observed.callers.items()},
            )
        except (SiteError, cst.ParserSyntaxError) as error:
            self._advise(shown, f"gbfix could not place the break in the source: {error}")
            return None

    def _with_counters(
        self, rewrite: Rewrite, judgement: ladder.Judgement, site: Site, observed: Observed
    ) -> tuple[Rewrite, ladder.Judgement]:
        """Try a rewrite once more of which a module's counter is a guard in each call.

        Dynamo takes whole numbers that modules hold for constants; a call that counts in one piece
        would compile anew for each count, up to the limit, and then no more.  Where that passes, as
        two calls compile no more than before, calls that were not recorded would do so, too.
        """
        failed = judgement.verdict.failure.startswith("recompiles:")
        regions = self._recorded.regions.values()
        unseen = any(it.calls_made is not None and it.calls_made > it.calls for it in regions)
        if not judgement.counts or not (failed or (unseen and judgement.verdict.passed)):
            return rewrite, judgement
        wider = _with_varying(site, rewrite)
        if wider is None or self._is_late():
            return rewrite, judgement
        second = self._trials.attempt(
            wider, site, observed, self._overlay, provisional=self._provisional
        )
        if not second.verdict.passed:
            return rewrite, judgement
        self._counting.add(site.graph_break.region)
        return wider, second

    def _varied(self, region: str, site: Site, rewrite: Rewrite) -> Rewrite:
        """The rewrite with its region's counter varying, where another one has needed that."""
        return (region in self._counting and _with_varying(site, rewrite)) or rewrite

    def _with_sizes(
        self, rewrite: Rewrite, judgement: ladder.Judgement, site: Site, observed: Observed
    ) -> tuple[Rewrite, ladder.Judgement]:
        """Try a rewrite once more whose trial has told how large its operators' results are."""
        if rewrite.settle is None or not judgement.operators or self._is_late():
            return rewrite, judgement
        settled = rewrite.settle(judgement.operators)
        if settled is None or (settled.edits == rewrite.edits and not judgement.verdict.passed):
            return rewrite, judgement
        settled = dataclasses.replace(settled, codemod=rewrite.codemod)
        second = self._trials.attempt(
            settled, site, observed, self._overlay, provisional=self._provisional
        )
        if second.verdict.passed or not judgement.verdict.passed:
            return settled, second
        if settled.edits != rewrite.edits:
            # It passed with the sizes that it was seen with, and gives others for other inputs.
            rewrite = dataclasses.replace(
                rewrite, safety=Safety.UNSAFE, notes=(OTHER_SIZES, *rewrite.notes)
            )
        return rewrite, judgement

    def _in_two_steps(
        self,
        found: GraphBreak,
        site: Site,
        observed: Observed,
        preparing: Sequence[Rewrite],
        codemods: Sequence[Codemod],
    ) -> bool:
        """Take up a rewrite that leaves the break, where another one can then remove it."""
        if self._preparing >= _STEPS:
            return False
        for rewrite in preparing:
            if self._is_late():
                return False
            judgement = self._trials.attempt(rewrite, site, observed, self._overlay, may_break=True)
            # How many graphs there are counts once the break is gone.
            verdict = _but_graphs(judgement.verdict)
            safety = _safety(rewrite, verdict)
            if not verdict.passed or (safety is Safety.UNSAFE and not self._options.unsafe_fixes):
                continue
            before = self._snapshot()
            kept = dict(self._overlay), list(self._accepted), dict(self._before_last)
            count = self._unconfirmed
            self._accept(Accepted(rewrite, found, site, observed, verdict, safety), judgement)
            self._preparing += 1
            try:
                left = self._open.get(found.region, ())
                if any(self._fix_one(item, codemods) for item in _handed_on(found, left)[:1]):
                    return True
            finally:
                self._preparing -= 1
            known = [_change(patch) for patch in before[0]["unsafe_patches"]]
            found_there = [
                patch for patch in self._report.unsafe_patches if _change(patch) not in known
            ]
            self._restore(before)
            self._overlay, self._accepted, self._before_last = kept
            self._unconfirmed = count
            self._withhold_both(rewrite, found_there)
        return False

    def _withhold_both(self, first: Rewrite, patches: Sequence[Patch]) -> None:
        """Keep unsafe patches that stand on top of a prepared step, together with that step."""
        for patch in patches:
            if set(first.edits) != {patch.path}:
                continue
            before = self._text(patch.path)
            shown = packages.diff_path(patch.path, self._target.cwd, self._options.include)
            both = dataclasses.replace(
                patch,
                before=before,
                diff=unified_diff(before, patch.after, shown),
                codemods=tuple(dict.fromkeys((first.codemod, *patch.codemods))),
                titles=(first.title, *patch.titles),
                notes=tuple(dict.fromkeys((*first.notes, *patch.notes))),
            )
            self._report.unsafe_patches.append(both)

    def _comes_last(self, rewrite: Rewrite) -> bool:
        return self._wraps(rewrite) or rewrite.rank >= _OPTIONS

    def _wraps(self, rewrite: Rewrite) -> bool:
        """Whether a rewrite puts code into an operator."""
        return self._brings(rewrite, _OPERATOR)

    def _brings(self, rewrite: Rewrite, text: str) -> bool:
        return any(
            new.count(text) > self._text(path).count(text) for path, new in rewrite.edits.items()
        )

    def _only_moves(self, found: GraphBreak, judgement: ladder.Judgement) -> bool:
        """Whether the region breaks as often as before, as far as that is known."""
        key = found.region
        if not self._recorded.user_breaks.get(key):
            return False  # of a region that may not break at all, one break is known at a time
        left = recording.merged(
            judgement.next_breaks.get(key, ()), judgement.user_breaks.get(key, ())
        )
        # (A generator in Python between the graphs is met as a frame of its own, of no place.)
        placed = [item for item in self._wanted(left) if item.site is not None]
        return bool(left) and len(placed) >= len(self._open.get(key, ()))

    def _propose(
        self, site: Site, codemods: Sequence[Codemod], shown: BreakReport
    ) -> list[Rewrite]:
        """All rewrites for the site, best first; advice goes to the report."""
        rewrites: list[Rewrite] = []
        for codemod in codemods:
            try:
                with self._clock.phase("propose"):
                    proposed = list(codemod.propose(site))
                for item in proposed:
                    if isinstance(item, Advice):
                        self._advise(shown, item.text)
                    elif beside := sorted(item.edits.keys() & (self._beside or {}).keys()):
                        self._advise(shown, _NOT_RUN.format(os.path.basename(beside[0])))
                    else:
                        rewrites.append(dataclasses.replace(item, codemod=codemod.name))
            except Exception as error:
                # One codemod's defect must not cost the user the others' work.
                warnings.warn(f"codemod {codemod.name} failed: {error!r}", stacklevel=1)
                self._advise(shown, f"codemod {codemod.name} failed on this code: {error!r}")
        unique: dict[tuple[tuple[str, str], ...], Rewrite] = {}
        # What compiles less is no fix while something keeps one graph.
        for rewrite in sorted(rewrites, key=lambda item: (self._trials.cuts(item), item.rank)):
            texts = tuple(sorted(rewrite.edits.items()))
            known = unique.setdefault(texts, rewrite)
            if known.safety is Safety.UNSAFE and rewrite.safety is Safety.SAFE:
                unique[texts] = rewrite  # one of two has proved what the other could not
        return list(unique.values())

    def _observe(self, found: GraphBreak) -> Observed:
        """Run the program once more, instrumented around the break."""
        assert found.site is not None
        path = found.site.path
        look = Instrument(path, "facts", found.site.line)
        callers = [frame for frame in found.frames if frame.in_project and frame != found.site]
        around = {Instrument(frame.path, "facts", frame.line) for frame in callers[-_CALLERS:]}
        own = called_on_self(
            self._text(path), {look.line, *(i.line for i in around if i.path == path)}
        )
        around |= {Instrument(path, "facts", line) for line in own}
        looks = [look, *sorted(around - {look}, key=lambda item: (item.path, item.line))]
        with self._clock.phase("facts"):
            outcome = self._bench.once(self._bench.job("facts", self._overlay, looks))
        unstable = dict(self._trials.baseline.unstable)
        for event in outcome.of(Nondeterministic):
            self._note_unstable(event, unstable)
        self._trials.baseline = dataclasses.replace(self._trials.baseline, unstable=unstable)
        by_file = {path: FrameFacts()}
        outcomes: dict[tuple[int, int], tuple[int, int]] = {}
        for seen in outcome.of(FactsSeen):
            by_file[seen.path] = by_file.get(seen.path, FrameFacts()).merged(seen.facts)
            if (seen.path, seen.line) != (path, look.line):
                continue
            for place, (no, yes) in seen.outcomes.items():
                before = outcomes.get(place, (0, 0))
                outcomes[place] = (before[0] + no, before[1] + yes)
        return Observed(by_file[path], outcomes, by_file)

    def _note_unstable(self, event: Nondeterministic, unstable: dict[str, ladder.Names]) -> None:
        if self._accepted or event.key in unstable:
            return
        unstable[event.key] = ladder.unstable_names(event.what)
        what = [finding for finding in event.what if not ladder.is_nobodys(finding)]
        if not what:
            return
        times = time_attributes(self._texts())
        held = [finding for finding in what if _is_of(finding, times)]
        base = self._trials.baseline
        base = dataclasses.replace(base, times=base.times | ladder.unstable_names(held))
        self._trials.baseline = base
        others = [finding for finding in what if finding not in held]
        names = list(dict.fromkeys(wording.subject(finding) for finding in others or held))
        region = self._recorded.regions.get(event.key)
        short = f"{event.key.rpartition('::')[2]}: two runs of the unchanged program differ in "
        why = "which holds times: these are not compared"
        if others:
            why = (
                "these could not be compared, so fixes here are unsafe "
                "(seed what is random, or leave times out)"
            )
        self._report.errors.append(
            ErrorReport(
                "nondeterministic",
                f"{short}{', '.join(names[:3])}{'; ' if others else ', '}{why}",
                region.path if region else "",
                region.line if region else 0,
                fatal=False,
            )
        )

    # -- keeping and reporting ---------------------------------------------------------------

    def _accept(self, item: Accepted, judgement: ladder.Judgement) -> None:
        rewrite = item.rewrite
        item.before = self._before_last = dict(self._overlay)
        self._overlay.update(rewrite.edits)
        self._accepted.append(item)
        # A run of the whole program confirms what was accepted before it, too.
        self._unconfirmed = 0 if judgement.whole else self._unconfirmed + 1
        self._report.steps.append(
            Step(
                rewrite.codemod,
                rewrite.title,
                item.code,
                dict(rewrite.edits),
                item.safety,
                judgement.verdict,
                rewrite.notes,
            )
        )
        self._trials.keep(rewrite, item.found.region, judgement)
        self._take_up(judgement)

    def _take_up(self, judgement: ladder.Judgement) -> None:
        """What is open now, and what became of the graphs."""
        for key in self._open:
            left = recording.merged(
                judgement.next_breaks.get(key, ()), judgement.user_breaks.get(key, ())
            )
            self._open[key] = self._wanted(left)
        for key, region in self._recorded.regions.items():
            if key in judgement.graphs:
                region.graphs_after = judgement.graphs[key]
            if key in judgement.recompiles:
                region.recompiles_after = judgement.recompiles[key]
            region.sizes_after = judgement.sizes.get(key, region.sizes_after)
            region.fallbacks_after = judgement.fallbacks.get(key, region.fallbacks_after)
        self._mark()

    def _mark(self) -> None:
        """A shown break is fixed once nothing open looks like it any more."""
        still = [
            shown
            for breaks in self._open.values()
            for item in breaks
            for shown in self._entries(item)
        ]
        for shown in self._report.breaks:
            if shown.status != "fixed" and not any(shown is entry for entry in still):
                shown.status = "fixed"
                shown.step = len(self._accepted) - 1
                shown.split = self._accepted[-1].split
                if shown.codemod is None and self._accepted:
                    shown.codemod = self._accepted[-1].rewrite.codemod

    def _shown(self, found: GraphBreak) -> BreakReport:
        """The report's entry for a break; one that came to light later gets an entry now."""
        for shown in self._entries(found):
            return shown
        url = registry.Registry.load().url(found.code)
        found = self._as_on_disk(found)
        entry = BreakReport(found, "unfixed" if found.site else "outside", url=url)
        self._report.breaks.append(entry)
        region = self._recorded.regions.get(found.region)
        if region is not None:
            region.breaks_before += 1
        return entry

    def _as_on_disk(self, found: GraphBreak) -> GraphBreak:
        site = found.site
        if site is None or site.path not in self._overlay:
            return found
        return sameness.moved_back(
            found, self._overlay[site.path], self._bench.source(site.path).text
        )

    def _advise(self, shown: BreakReport, text: str) -> None:
        if text not in shown.advice:
            shown.advice = (*shown.advice, text)

    def _withhold(self, item: Accepted) -> None:
        """Keep an unsafe patch for the report: shown as available, never applied by default.

        One that was kept before, on top of fewer patches, gives way to what says the same.
        """
        for path, text in item.rewrite.edits.items():
            if text == self._text(path):
                continue
            patch = self._patch(path, self._text(path), text, [item], item.verdict)
            kept = self._report.unsafe_patches
            kept[:] = [*(old for old in kept if _change(old) != _change(patch)), patch]

    def _patch(
        self, path: str, before: str, after: str, accepted: Sequence[Accepted], verdict: Verdict
    ) -> Patch:
        shown = packages.diff_path(path, self._target.cwd, self._options.include)
        unsafe = any(item.safety is Safety.UNSAFE for item in accepted)
        return Patch(
            path,
            unified_diff(before, after, shown),
            before,
            after,
            tuple(dict.fromkeys(item.rewrite.codemod for item in accepted)),
            tuple(dict.fromkeys(item.code for item in accepted)),
            Safety.UNSAFE if unsafe else Safety.SAFE,
            verdict,
            tuple(item.rewrite.title for item in accepted),
            tuple(dict.fromkeys(note for item in accepted for note in item.rewrite.notes)),
        )

    def _finish(self) -> None:
        """Patches, final states of regions, advice for what is left; keep it all in the cache."""
        for path, after in self._overlay.items():
            mine = [item for item in self._accepted if path in item.rewrite.edits]
            before = self._bench.source(path).text
            if after != before:
                # Every accepted rewrite was validated on top of all earlier ones, in fresh
                # processes: the last verdict is the final check of the whole set.
                verdict = self._accepted[-1].verdict
                branches = _branch_sum(mine)
                others = (r for r in verdict.rungs if r.name != "branches")
                rungs = (*others, *branches[1], *_untried(mine, verdict))
                verdict = dataclasses.replace(verdict, rungs=rungs, branches=branches[0])
                self._report.patches.append(self._patch(path, before, after, mine, verdict))
        for key, region in self._recorded.regions.items():
            if region.status in ("clean", "error"):
                continue
            left = self._left(key)
            region.breaks_after = len(left)
            if not left:
                cut = any(item.split and item.found.region == key for item in self._accepted)
                region.status = "split" if cut else "fixed"
            elif any(
                shown.status == "fixed" and shown.graph_break.region == key
                for shown in self._report.breaks
            ):
                region.status = "partial"
        if self._out_of_time:
            self._say_late()
        for shown in self._report.breaks:
            if shown.status != "fixed" and not shown.advice and not self._options.check_only:
                shown.advice = _advice(shown)
        self._report.files = self._project_files()
        self._unused_ignores()
        if self._options.use_cache and not any(error.fatal for error in self._report.errors):
            cache.store(
                self._target,
                self._options,
                registry.torch_version(),
                self._report,
                self._report.files,
            )

    def _say_late(self) -> None:
        """Name what was not tried, or not to the end."""
        text = f"gbfix had {self._options.budget:g} s (--budget) and did not come to the end here."
        for still in [found for items in self._open.values() for found in items]:
            self._shown(still)  # one that a patch has uncovered, and that nobody came to
        left = [item for item in self._report.breaks if item.status == "unfixed"]
        for shown in left:
            self._advise(shown, text)
        self._report.errors.append(
            ErrorReport(
                "budget",
                f"the budget of {self._options.budget:g} s is spent: {len(left)} "
                f"{'break was' if len(left) == 1 else 'breaks were'} not tried to the end "
                "(--budget S gives it longer)",
                fatal=False,
            )
        )

    def _unused_ignores(self) -> None:
        """Comments that ignored nothing, in the files that the regions and their breaks are in."""
        paths = {region.path for region in self._recorded.regions.values()}
        paths |= {item.graph_break.site.path for item in self._report.breaks
                  if item.graph_break.site is not None}  # fmt: skip
        for path in sorted(name for name in paths if name.endswith(".py")):
            used = [(line, code) for where, line, code in self._ignored_breaks if where == path]
            for item in ignores.unused(self._bench.source(path).text, used):
                text = "`gbfix: ignore` hides no graph break of this run; remove it"
                if item.unknown:
                    text = f"`gbfix: ignore` names {', '.join(item.unknown)}, which is no code"
                self._report.errors.append(
                    ErrorReport("unused-ignore", text, path, item.line, fatal=False)
                )

    def _sources(self) -> dict[str, str]:
        """The texts that speak for the project: those that ran, and those that import them."""
        files = self._project_files()
        if self._beside is None:
            self._beside = project_files.neighbours(files, self._entry, self._root)
        return {**{path: self._text(path) for path in files}, **self._beside}

    def _project_files(self) -> tuple[str, ...]:
        return tuple(path for path in self._recorded.files if os.path.exists(path))


class _Selection:
    """What ``--select`` and ``--ignore`` leave: both take codes (of breaks) and codemod names."""

    def __init__(self, options: Options) -> None:
        names = {info.name for info in catalog.codemods()}
        self._names = set(options.select) & names
        self._codes = set(options.select) - names
        self._ignored = set(options.ignore)

    def breaks(self, found: Sequence[GraphBreak]) -> tuple[GraphBreak, ...]:
        """The breaks that are looked at and reported at all."""
        return tuple(
            item
            for item in found
            if item.code not in self._ignored and (not self._codes or item.code in self._codes)
        )

    def codemods(self, installed: Sequence[Codemod]) -> list[Codemod]:
        return [
            item
            for item in installed
            if item.name not in self._ignored and (not self._names or item.name in self._names)
        ]


def _is_of(finding: Finding, attributes: frozenset[str]) -> bool:
    """Whether what differs is state, in an attribute of one of these names."""
    parts = finding.place.split(".")
    return finding.part is Part.STATE and not attributes.isdisjoint(parts[1:])


_NOT_RUN = (
    "A patch was left out: `{}` would have to change with it, and the recorded run does not load "
    "that file."
)
_MOVED = "A patch was left out, as the break would only move to `{}`, which nothing mends."
#: Tests of a tensor's value; and what plain Python tests without one.
_TESTS = {"GB0170", "data-dependent-guard"}
_NUMBERS = {"bool", "int", "float", "none", "str"}
#: From this rank on, rewrites set an option, or leave the break to Python between two graphs.
_OPTIONS = 80
_BRANCHES = ".cond("
#: What a rewrite of a branch may do away with on the way: branches in it.
_BRANCHED = frozenset({"GB0170", "data-dependent-guard"})
#: How many rewrites may prepare one that then removes a break: a draw, and the flag that it sets.
_STEPS = 2


def _with_varying(site: Site, rewrite: Rewrite) -> Rewrite | None:
    """The rewrite with whole numbers of modules varying; None where the code says so already."""
    wider = with_setting(site, rewrite, "allow_unspec_int_on_nn_module")
    if wider is None:
        return None
    return dataclasses.replace(
        wider,
        title=f"{rewrite.title}; let whole numbers of modules vary",
        notes=(*rewrite.notes, _VARIES),
    )


_VARIES = (
    "Dynamo treats a module's counter as a constant and recompiles for each value; the patch sets"
    " `allow_unspec_int_on_nn_module`, for the whole process."
)


def _safety(rewrite: Rewrite, verdict: Verdict) -> Safety:
    if rewrite.safety is Safety.UNSAFE or verdict.caveats:
        return Safety.UNSAFE
    return Safety.SAFE


def _add_attempt(shown: BreakReport, attempt: Attempt) -> None:
    if attempt not in shown.attempts:  # it may be tried again on a text patched elsewhere
        shown.attempts += (attempt,)


def _branch_sum(accepted: Sequence[Accepted]) -> tuple[tuple[int, int] | None, tuple[Rung, ...]]:
    """Branches over all rewrites of a file: each counted the conditions that it rewrote."""
    counts = [item.verdict.branches for item in accepted if item.verdict.branches]
    if not counts:
        return None, ()
    seen, total = sum(count[0] for count in counts), sum(count[1] for count in counts)
    caveats = tuple(
        text
        for item in accepted
        for rung in item.verdict.rungs
        if rung.name == "branches"
        for text in rung.caveats
    )
    return (seen, total), (Rung("branches", True, f"{seen} of {total} ran", caveats),)


def _untried(accepted: Sequence[Accepted], last: Verdict) -> tuple[Rung, ...]:
    """What was not tried to the end for some rewrite, nor for all of them together since."""
    rungs = {r.name: r for item in accepted for r in item.verdict.rungs if r.passed is None}
    return tuple(rung for name, rung in rungs.items() if last.rung(name) is None)


def _but_graphs(verdict: Verdict) -> Verdict:
    rungs = tuple(rung for rung in verdict.rungs if rung.passed or rung.name != "recompiles")
    return dataclasses.replace(verdict, rungs=rungs)


def _handed_on(found: GraphBreak, left: Sequence[GraphBreak]) -> list[GraphBreak]:
    """What a prepared break may have become: in its function, or in one that this calls."""
    place = _function(found)
    here = [item for item in left if _function(item) == place]
    below = [
        item
        for item in left
        if item not in here and any((it.path, it.function) == place for it in item.frames)
    ]
    return here + below


def _function(found: GraphBreak) -> tuple[str, str] | None:
    """Where it breaks: the file, and the function, to which lists that it makes belong."""
    if found.site is None:
        return None
    frames = list(found.frames)
    at = frames.index(found.site) if found.site in frames else -1
    name = found.site.function
    while at > 0 and name.rpartition(".")[2] in COMPREHENSIONS:
        at -= 1
        name = frames[at].function
    return (found.site.path, name)


def _change(patch: Patch) -> tuple[object, ...]:
    """What a patch does, and between what, wherever in the file that is by now."""
    lines = [line for line in patch.diff.splitlines()[2:] if not line.startswith("@@")]
    return (patch.path, patch.titles, lines)


def _advice(shown: BreakReport) -> tuple[str, ...]:
    """Words for a break that stays: ours where we have them, else torch's own hints."""
    ours = registry.advice(shown.graph_break.code)
    if ours is not None:
        return (ours.text,)
    return shown.graph_break.hints[:3]
