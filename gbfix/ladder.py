"""Judges a candidate: reads the events of its runs and climbs the validation ladder.

Pure bookkeeping: what was measured happened in the worker.  The rungs, in the order in which they
are reported: ``source``, ``outputs``, ``gradients``, ``effects`` (patched eager against original
eager, on recorded and varied inputs), one for each backend under ``fullgraph=True``, ``program``
(the patched program as the user compiles it), ``recompiles``, ``branches``, ``constants``.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gbfix import wording
from gbfix.evidence import Finding, Kind, Kinds, Part, Usage, Weight, forgive, weigh
from gbfix.evidence.contract import holds_no_numbers
from gbfix.evidence.forgive import Assumption
from gbfix.schema import GraphBreak, Rung, Span, Told, Verdict
from gbfix.worker.protocol import (
    Compared,
    Failed,
    Finished,
    OperatorSizes,
    Outcome,
    RegionCalled,
    SizesSeen,
    Traced,
)

#: What findings are named by, without values: see `gbfix.evidence.Finding`.
Names = frozenset[tuple[str, ...]]


#: The codes of a ``requires_grad`` that is set to another value, by assignment or by its method.
_GRADIENT_FLAGS = frozenset({"GB0125", "GB0206"})


@dataclasses.dataclass
class Baseline:
    """What the original program did: calls recorded, graphs made, output, what is not fixed.

    ``unstable`` holds, by region, what two runs of the original disagreed on.
    """

    #: Of each region, which of its calls were recorded.
    calls: Mapping[str, tuple[int, ...]]
    graphs: Mapping[tuple[str, int], int]
    breaks: Mapping[str, tuple[GraphBreak, ...]]
    shown: bytes
    stable_output: bool
    ended_by_itself: bool
    unstable: Mapping[str, Names]
    #: Those of ``unstable`` that hold times, of which no two runs could be alike.
    times: Names = frozenset()
    raising: frozenset[tuple[str, int]] = frozenset()
    refused: frozenset[str] = frozenset()
    #: What the unpatched program, compiled with its graph breaks, does differently from eager (a
    #: tensor prints another ``grad_fn``, say): no fault of a patch that leaves breaks behind.
    #: By region and rung; None until it was measured.
    inherent: Mapping[tuple[str, str], Names] | None = None
    #: By region: the most control-flow operators in one graph of the original.
    conditionals: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: Regions that accepted rewrites made (the halves of a split), and the region they came from.
    parts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: What the original printed when compiled, where that is something else than uncompiled.
    shown_compiled: bytes | None = None
    #: By region: how many frames of its first call Dynamo began, and left to Python whole.
    fallbacks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: The calls that broke and made no graph: Python ran them, and Dynamo gave the function up.
    uncompiled: frozenset[tuple[str, int]] = frozenset()
    #: What accepted rewrites have proved; it holds for every later candidate, too.
    assumes: tuple[str, ...] = ()
    #: By region: the kinds of its recorded calls.
    kinds: Mapping[str, Kinds] = dataclasses.field(default_factory=dict)
    #: What the program does with what its regions give back.
    usage: Usage = dataclasses.field(default_factory=Usage)


@dataclasses.dataclass
class Judgement:
    """A verdict and what is left to do: the next breaks by region, in the patched text."""

    verdict: Verdict
    next_breaks: dict[str, tuple[GraphBreak, ...]]
    graphs: dict[str, int]
    user_breaks: dict[str, tuple[GraphBreak, ...]]
    new_regions: tuple[str, ...] = ()
    #: By region: graphs made in later calls than the first.
    recompiles: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: Whether the whole program ran, and not its recorded calls alone.
    whole: bool = True
    #: Whether less is compiled than before: parts of a function, or none of another.
    split: bool = False
    #: Which graph holds several control-flow operators where gradients are computed.
    crowded: str = ""
    #: By region: operators in each graph of its first call, and frames left to Python.
    sizes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    fallbacks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: What runs of the operators' bodies told of their results' sizes, by the operator's name.
    operators: Mapping[str, Told] = dataclasses.field(default_factory=dict)
    #: Whether a call compiles anew, and did not before, as a whole number of a module had changed.
    counts: bool = False


def check_source(
    before: Mapping[str, str], edits: Mapping[str, str], touched: Mapping[str, Sequence[Span]]
) -> Rung:
    """Rung 1: the patched files parse, and nothing outside the rewrite changed.

    New whole lines (imports, helper definitions) may appear anywhere; lines that existed may
    change or go only where the rewrite said so.
    """
    changed = False
    for path, text in edits.items():
        old = before.get(path, "")
        if text == old:
            continue
        changed = True
        try:
            compile(text, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return Rung("source", False, f"the patched file does not parse: {error}")
        line = _lost_line(old, text, touched.get(path, ()))
        if line:
            return Rung("source", False, f"line {line} changes outside of the rewrite")
    if not changed:
        return Rung("source", False, "the rewrite changes nothing")
    return Rung("source", True)


def _lost_line(old: str, new: str, spans: Sequence[Span]) -> int:
    """The first line that the rewrite did not mean to change and that is not there; 0 if none.

    The lines between the rewrite's own come one after the other in the new text, with others among
    them: where a piece of a function now stands in a second place, no alignment is guessed.
    """
    meant = {line for span in spans for line in range(span.line, span.end_line + 1)}
    rest = iter(_lines(new))
    for number, line in enumerate(_lines(old), 1):
        if number not in meant and not any(line == other for other in rest):
            return number
    return 0


def removed_lines(old: str, new: str) -> set[int]:
    """Numbers of the lines of ``old`` that are gone or different in ``new``."""
    result: set[int] = set()
    matcher = difflib.SequenceMatcher(None, _lines(old), _lines(new), autojunk=False)
    for tag, start, end, _, _ in matcher.get_opcodes():
        if tag in ("replace", "delete"):
            result.update(range(start + 1, end + 1))
    return result


def new_lines(old: str, new: str) -> set[int]:
    """Numbers of the lines of ``new`` that are not the same as in ``old``."""
    return removed_lines(new, old)


def moved_line(old: str, new: str, line: int) -> int | None:
    """Where an unchanged line of ``old`` stands in ``new``; None if the patch changed it."""
    for first, second, size in _same_blocks(old, new):
        if first < line <= first + size:
            return second + line - first
    return None


@functools.lru_cache(maxsize=16)
def _same_blocks(old: str, new: str) -> tuple[tuple[int, int, int], ...]:
    """Where lines stand in both texts: from which on in each, and how many."""
    matcher = difflib.SequenceMatcher(None, _lines(old), _lines(new), autojunk=False)
    return tuple((block.a, block.b, block.size) for block in matcher.get_matching_blocks())


def _lines(text: str) -> list[str]:
    return text.split("\n")


def judge(
    source: Rung,
    candidate: Outcome,
    user: Outcome,
    baseline: Baseline,
    backends: Sequence[str],
    *,
    target: str,
    avoid: frozenset[int],
    avoid_path: str,
    avoid_code: str,
    assumes: Sequence[str] = (),
    keeps_out: bool = False,
) -> Judgement:
    """Climb the ladder with what the candidate's runs reported.

    ``target`` is the key of the region whose break the candidate is to remove; ``avoid`` the lines
    of the patched file on which it must not break again.  ``keeps_out`` says that the patch tells
    Dynamo to pass over a function: only the one with which a region begins may be such a one.
    """
    rungs = [source]
    assumes = (*baseline.assumes, *assumes)
    candidate, user = (run.without_traces(baseline.raising) for run in (candidate, user))
    next_breaks = first_breaks(candidate)
    user_breaks = all_breaks(user)
    graphs = region_graphs(user)
    sizes, fallbacks = region_sizes(user), region_fallbacks(user)
    known = set(baseline.calls)
    seen = {event.key for run in (candidate, user) for event in run.of(RegionCalled)}
    fresh = tuple(sorted(seen - known))
    for key in fresh:
        # What a part still breaks on, its origin still breaks on.
        origin = baseline.parts.get(key, target)
        for found in (next_breaks, user_breaks):
            found[origin] = (*found.get(origin, ()), *found.pop(key, ()))
        for counts in (graphs, fallbacks):
            counts[origin] = counts.get(origin, 0) + counts.pop(key, 0)
        sizes[origin] = (*sizes.get(origin, ()), *sizes.pop(key, ()))
    for event in candidate.of(Traced):
        codes = {avoid_code}
        if event.key == target and avoid_code in _GRADIENT_FLAGS:
            codes |= _GRADIENT_FLAGS  # the same obstacle, by its other name
        if any(_same_place(found, avoid, avoid_path, codes) for found in event.breaks):
            what = event.breaks[0]
            cause = what.gb_type if what.code.startswith("GB") else what.explanation
            rungs.append(Rung("break", False, f"still breaks: {what.code}: {_line(cause)}"))
            break
    crashed = _program_failure(candidate, baseline)
    if crashed:
        rungs.append(Rung("outputs", False, crashed))
    if all(rung.passed for rung in rungs):
        rungs += _eager_rungs(candidate, baseline, assumes)
        rungs += _backend_rungs(candidate, baseline, backends, assumes)
        fewer = Assumption.TEXTS_ONLY_IN_EAGER in assumes
        rungs += _user_rungs(
            candidate, user, baseline, user_breaks, next_breaks,
            fewer_texts=fewer, keeps_out=keeps_out,
        )  # fmt: skip
        if baseline.times and (fresh or keeps_out):
            # Where a graph ends is part of what a clock beside it measures.
            rungs.append(Rung("times", True, caveats=(_TIMES_A_SPLIT,)))
        if fresh and user_traces(user) and not graphs.get(baseline.parts.get(fresh[0], target)):
            rungs.append(Rung("parts", False, "no part of the function becomes a graph"))
    perturbed = max((event.perturbed for event in candidate.of(Compared)), default=0)
    return Judgement(
        Verdict(tuple(rungs), perturbed=max(perturbed - 1, 0)),
        next_breaks,
        graphs,
        user_breaks,
        fresh,
        later_graphs(user),
        split=bool(fresh) or keeps_out,
        crowded=_crowded(user, baseline),
        sizes=sizes,
        fallbacks=fallbacks,
        counts=any(
            event.counts and event.graphs > baseline.graphs.get((event.key, event.index), 0)
            for event in user_traces(user)
        ),
        operators={
            event.name.rpartition("::")[2]: event.told for event in candidate.of(OperatorSizes)
        },
    )


#: ``torch.compiler.disable()``: what calls such a function breaks there.
_KEPT_OUT = frozenset({"GB0098", "GB0099"})


def _same_place(
    found: GraphBreak, lines: frozenset[int], path: str, codes: Collection[str]
) -> bool:
    site = found.site
    if site is None or site.line not in lines or site.path != path:
        return False
    return found.code in codes or not found.code.startswith("GB")


def _program_failure(outcome: Outcome, baseline: Baseline) -> str:
    """What went wrong with the patched program as a whole, or an empty string."""
    for event in outcome.of(Failed):
        if event.kind == "region-error":
            if (event.key, event.index) in baseline.raising:
                continue
            return f"the patched program raises {event.message}"
        if event.kind in ("fork", "timeout"):
            return f"could not be measured: {event.message}"
        return f"the patched program fails: {event.message}"
    if outcome.ended not in ("ok", "stopped"):
        return f"the patched program did not end: {outcome.ended} {outcome.detail}".strip()
    return ""


def _eager_rungs(candidate: Outcome, baseline: Baseline, assumes: Sequence[str]) -> list[Rung]:
    """Patched eager against original eager, sorted by what differs."""
    events = [event for event in candidate.of(Compared) if event.rung == "eager"]
    done = {(event.key, event.index) for event in events}
    missing = [
        f"call {index} of {key.rpartition('::')[2]} was not reached"
        for key, indices in baseline.calls.items()
        for index in indices
        if (key, index) not in done
    ]
    sums = {"outputs": _Sum(missing), "gradients": _Sum(), "effects": _Sum()}
    for event in events:
        unstable = baseline.unstable.get(event.key, frozenset())
        forgiven = forgive(event.findings, assumes, compiled=False)
        for finding in forgiven.caveats:
            sums[_rung_of(finding)].add(finding, Weight.CAVEAT)
        for finding in forgiven.left:
            if finding.labelled in unstable:
                continue
            if finding.name in unstable:
                if finding.name not in baseline.times:
                    sums["outputs"].say_caveat(_NOT_COMPARED)
                continue
            sums[_rung_of(finding)].add(finding, _weight(finding, event.key, baseline, True))
    count = sum(event.perturbed for event in events)
    return [
        found.rung(name, f"{count} comparisons" if name == "outputs" else "")
        for name, found in sums.items()
    ]


_TIMES_A_SPLIT = "a split changes what the clocks of the region measure: not compared"
_NOT_COMPARED = "the original is not deterministic here: not compared"


class _Sum:
    """What the findings of a rung come to, each sentence once."""

    def __init__(self, differences: Iterable[str] = ()) -> None:
        self._texts: dict[Weight, dict[str, None]] = {weight: {} for weight in Weight}
        self._texts[Weight.DIFFERENCE].update(dict.fromkeys(differences))
        #: What is said of an ordinary call is not said again of each odd one.
        self._limits: dict[tuple[Part, Kind, str], Finding] = {}

    def add(self, finding: Finding, weight: Weight) -> None:
        if weight is Weight.LIMIT:
            key = (finding.part, finding.kind, finding.place)
            known = self._limits.setdefault(key, finding)
            if wording.is_ordinary(finding) and not wording.is_ordinary(known):
                self._limits[key] = finding
            return
        say = {
            Weight.CAVEAT: wording.caveat,
            Weight.DIFFERENCE: wording.difference,
        }[weight]
        self._texts[weight].setdefault(say(finding))

    def say_caveat(self, text: str) -> None:
        self._texts[Weight.CAVEAT].setdefault(text)

    def rung(self, name: str, detail: str) -> Rung:
        differences = tuple(self._texts[Weight.DIFFERENCE])
        return Rung(
            name,
            not differences,
            differences[0] if differences else detail,
            tuple(self._texts[Weight.CAVEAT]),
            wording.limits(self._limits.values()),
        )


def _weight(finding: Finding, key: str, baseline: Baseline, eager: bool) -> Weight:
    kinds = baseline.kinds.get(key, Kinds())
    return weigh(finding, key, kinds, baseline.usage, eager=eager)


def _rung_of(finding: Finding) -> str:
    """The rung that a finding of the uncompiled run belongs to."""
    if finding.part is Part.EFFECT:
        return "effects"
    return "gradients" if finding.part is Part.GRADIENT else "outputs"


def _backend_rungs(
    candidate: Outcome,
    baseline: Baseline,
    backends: Sequence[str],
    assumes: Sequence[str],
    *,
    any_inputs: bool = False,
) -> list[Rung]:
    """``any_inputs``: what the unpatched program does on the same inputs counts for all of them."""
    rungs = []
    for backend in backends:
        names = (f"fullgraph-{backend}", f"partial-{backend}")
        events = [event for event in candidate.of(Compared) if event.rung in names]
        if not events:
            rungs.append(Rung(backend, False, "was not compiled"))
            continue
        found = _Sum()
        for event in events:
            inherent = (baseline.inherent or {}).get((event.key, event.rung), frozenset())
            broken = (baseline.inherent or {}).get((event.key, names[1]), frozenset())
            skipped = baseline.unstable.get(event.key, frozenset()) | inherent
            forgiven = forgive(event.findings, assumes, compiled=True)
            for finding in forgiven.caveats:
                found.add(finding, Weight.CAVEAT)
            for finding in forgiven.left:
                if finding.name in skipped or finding.labelled in skipped:
                    continue
                if finding.labelled in broken:
                    if any_inputs or _of_no_number(finding):
                        continue
                    if _is_assert_of_dynamo(finding):
                        found.add(finding, Weight.LIMIT)
                        continue
                found.add(finding, _weight(finding, event.key, baseline, False))
        partial = sorted({e.key.rpartition("::")[2] for e in events if e.rung == names[1]})
        count = sum(event.perturbed for event in events)
        detail = f"fullgraph=True, {count} comparisons"
        if partial:
            how = "with graph breaks" if count else f"under {backends[-1]} alone"
            detail = f"{', '.join(partial)} still breaks elsewhere; compared {how}"
        rungs.append(found.rung(backend, detail))
    return rungs


def is_late(outcome: Outcome) -> bool:
    """Whether a run, or one that stands in for a fork of it, was ended by its time limit."""
    return outcome.ended == "timeout" or any(e.kind == "timeout" for e in outcome.of(Failed))


def one_backend(
    outcome: Outcome,
    plain: Outcome | None,
    baseline: Baseline,
    backend: str,
    limit: float,
    assumes: Sequence[str] = (),
) -> Rung:
    """The rung of a brief run under one more backend; ``plain`` is the original's, if it failed."""
    if is_late(outcome):
        return not_tried(backend, f"did not end within {limit:g} s")
    problem = _program_failure(outcome, baseline)
    if problem:
        return Rung(backend, False, problem)
    if plain is not None:
        baseline = dataclasses.replace(baseline, inherent=inherent_differences(plain))
    (rung,) = _backend_rungs(outcome, baseline, (backend,), assumes, any_inputs=True)
    return rung


def _is_late_label(label: str) -> tuple[bool, str]:
    """Orders labels: inputs that need gradients of their own come last in every sequence."""
    return label.startswith("grad"), label


_EQUAL = (
    "a size that comes out of a tensor is taken to be that of another tensor while compiling: where"
    " it broadcasts as 1 in eager, the compiled function raises an error"
)


#: The same where the region is not whole, so that no graph has all of it.
_NOT_SEEN = (
    "the region is not one graph yet, so that sizes that come out of tensors were not compared"
    " where they are 0 and where they are 1"
)

#: What a graph takes for granted of a mask of lengths.
_AS_WIDE = (
    "If exactly one of `max({})` and the size that it meets is 1, the original broadcasts it; the"
    " compiled function raises an error."
)


def decided_sizes(
    candidate: Outcome,
    forced: Sequence[Outcome] = (),
    limits: Sequence[str] = (),
    pick_alike: Callable[[tuple[str, ...]], bool] = lambda places: False,
    widths: Mapping[str, str] | None = None,
) -> tuple[Rung, frozenset[str]]:
    """Whether the sizes that data decides were compared where they are 0 and where they are 1.

    Torch traces them as neither.  With the rung come the labels of inputs that show these cases,
    one for each, for backends that see few inputs.  ``forced`` are runs in which what a size is
    made of was given a value (and ``limits`` what is to be said of them).  ``pick_alike`` says of
    places whether the sizes that are decided there are the same in any case; ``widths`` are places
    that decide how wide a mask of lengths is, each with the text of these.
    """
    events = candidate.of(SizesSeen)
    if not events:
        return Rung("sizes", True, "", (_NOT_SEEN,)), frozenset()
    shown = _shown_sizes(candidate)
    proved = {key for run in (candidate, *forced) for key in _shown_to_the_end(run)}
    caveats: list[str] = []
    said = dict.fromkeys(limits)
    for seen in events:
        for text in seen.equal:
            made = seen.made.get(text, "")
            if pick_alike(seen.alike.get(text, ())):
                continue
            if widths and made in widths:
                said[_AS_WIDE.format(widths[made])] = None
            else:
                caveats = [_EQUAL]
    for place, size in sorted(shown):
        if (place, size) not in proved:
            path, _, line = place.rpartition(":")
            where = f"line {line} of {os.path.basename(path)}" if path else place
            caveats.append(
                f"no input was found for which a size that the data decides is {size} on {where};"
                " while compiling, torch takes such a size to be neither 0 nor 1"
            )
    detail = "compared where they are 0 and 1" if shown else "data decides none"
    if said and not shown:
        detail = "taken to be those of other tensors"
    if forced:
        detail += ", by force where no input shows it"
    raised = _not_to_the_end(candidate)
    best = functools.partial(min, key=lambda label: (label in raised, *_is_late_label(label)))
    also = frozenset(best(found) for found in shown.values() if found)
    return Rung("sizes", True, detail, tuple(caveats), tuple(said)), also


def _shown_sizes(candidate: Outcome) -> dict[tuple[str, int], list[str]]:
    """By place and size: the inputs on which it was compared under all backends."""
    compared: dict[tuple[str, int], frozenset[str]] = {}
    for event in candidate.of(Compared):
        if event.rung.startswith("fullgraph-"):
            key = event.key, event.index
            compared[key] = compared.get(key, event.labels) & event.labels
    shown: dict[tuple[str, int], list[str]] = {}
    for seen in candidate.of(SizesSeen):
        common = compared.get((seen.key, seen.index), frozenset())
        for place, by_size in seen.seen.items():
            for size, labels in by_size.items():
                shown.setdefault((place, size), []).extend(sorted(labels & common))
    return shown


def _shown_to_the_end(candidate: Outcome) -> set[tuple[str, int]]:
    """Places and sizes with an input on which the graph came to its end.

    Where both programs raise an error, what follows it has not been compared with such a size, and
    other inputs may come that far.
    """
    raised = _not_to_the_end(candidate)
    return {key for key, found in _shown_sizes(candidate).items() if not raised.issuperset(found)}


def _not_to_the_end(candidate: Outcome) -> frozenset[str]:
    """The inputs on which a graph raised an error."""
    return frozenset().union(*(seen.raised for seen in candidate.of(SizesSeen)))


def unshown_sources(candidate: Outcome) -> tuple[str, ...]:
    """Places of what sizes are made of that no input has shown as 0 and as 1."""
    shown = _shown_to_the_end(candidate)
    lacking = {place for place, size in _shown_sizes(candidate) if (place, size) not in shown}
    found: dict[str, None] = {}
    for seen in candidate.of(SizesSeen):
        for place in sorted(lacking & seen.sources.keys()):
            found |= dict.fromkeys(seen.sources[place])
    return tuple(found)


def labels(outcome: Outcome, backend: str) -> frozenset[str]:
    """The inputs that were compared under a backend, in one graph."""
    rung = f"fullgraph-{backend}"
    found = (event.labels for event in outcome.of(Compared) if event.rung == rung)
    return frozenset().union(*found)


def shown(candidate: Outcome, key: str, labels: Collection[str]) -> Rung:
    """Whether inputs that a rewrite asks for were compared in a region."""
    events = [event for event in candidate.of(Compared) if event.key == key]
    found = {name for event in events for name in event.labels}
    missing = sorted(set(labels) - found)
    caveats = tuple(_NOT_SHOWN[label] for label in missing)
    return Rung("shown", True, "" if missing else f"{', '.join(sorted(labels))}", caveats)


def shortcut(
    spans: Sequence[Span],
    outcomes: Mapping[tuple[int, int], tuple[int, int]],
    tests: Sequence[Span],
) -> Rung:
    """Whether calls, or variations of them, took both ways of a condition that a rewrite drops.

    One call may agree by chance: each of the two ways has to have been taken twice.
    """
    counts = [
        outcomes.get((span.line, span.column), (0, 0))
        for span in tests
        if any(outer.contains(span) for outer in spans)
    ]
    no, yes = min(counts, key=min, default=(0, 0))
    caveats = (_FEW.format(yes=yes, no=no),) if min(no, yes) < 2 else ()
    return Rung("shown", True, f"held {yes} times, and {no} times not", caveats)


_FEW = (
    "the condition that is left out held in {yes} of the calls that were tried, and in {no} it did"
    " not: too few to show that both ways give the same"
)
#: What it means that inputs which a rewrite asks for could not be made.
_NOT_SHOWN = {
    "twins": "no call could be made in which different tensors hold the same numbers",
}


def crowded(judgement: Judgement) -> Rung | None:
    """A word on several control-flow operators in one graph, unless inductor did well."""
    if not judgement.crowded:
        return None
    rung = judgement.verdict.rung("inductor")
    fault = "torch 2.13's inductor can compute wrong gradients there (fine without gradients)"
    if rung is not None and rung.passed:
        return None
    return Rung("operators", True, "", (f"{judgement.crowded}: {fault}",))


def not_tried(backend: str, why: str) -> Rung:
    """The rung of a backend that was not tried to the end: no verdict, and no ground for "safe"."""
    caveat = f"not tried under {backend}, where such patches went wrong before: the check {why}"
    return Rung(backend, None, why, (f"{caveat} (--inductor-timeout gives it longer)",))


_SHOWS_GRADIENT = (
    "A printed tensor now shows a `grad_fn`, because the branch that is not taken is part of its"
    " computation."
)


def _shows_more_gradients(outcome: Outcome, baseline: Baseline) -> bool:
    """Whether what is printed differs in tensors that require a gradient now, and in no more."""
    before, had = Outcome([], stdout=baseline.shown).shown_values
    now, has = outcome.shown_values
    return before == now and had < has


def _user_rungs(
    candidate: Outcome,
    user: Outcome,
    baseline: Baseline,
    user_breaks: Mapping[str, tuple[GraphBreak, ...]],
    next_breaks: Mapping[str, tuple[GraphBreak, ...]],
    *,
    fewer_texts: bool,
    keeps_out: bool,
) -> list[Rung]:
    """The patched program as the user compiles it: its output, and how often it recompiles."""
    problem = _program_failure(user, baseline) or _refused(user, baseline)
    if keeps_out:
        problem = problem or _kept_out(user_breaks, baseline)
    program = Rung("program", True, "runs with the user's own compile options")
    if problem:
        program = Rung("program", False, problem)
    elif baseline.ended_by_itself and baseline.stable_output:
        for outcome, how in ((candidate, "uncompiled"), (user, "compiled")):
            # A slow run may be stopped once its regions had their calls.
            whole = any(not event.stopped for event in outcome.of(Finished))
            if not whole or (fewer_texts and outcome is user):
                continue
            if _shows_more_gradients(outcome, baseline):
                program = dataclasses.replace(program, limits=(_SHOWS_GRADIENT,))
            elif not same_but_rounding(baseline.shown, outcome.shown):
                detail = f"prints something else when {how}: {_first_change(baseline, outcome)}"
                program = Rung("program", False, detail)
                break
    elif baseline.ended_by_itself and baseline.shown_compiled is not None:
        # A text that is made of values is compared in `Shot`s; here, words alone.
        problem, caveats = "", []
        for outcome, how in ((candidate, "uncompiled"), (user, "compiled")):
            if all(event.stopped for event in outcome.of(Finished)) or problem:
                continue
            if fewer_texts and outcome is user:
                continue
            problem, caveat = _other_words(baseline, outcome)
            problem = problem and f"prints something else when {how}: {problem}"
            if caveat:
                caveats.append(f"when {how}, prints what the original never does: {caveat}")
        program = dataclasses.replace(program, caveats=tuple(caveats))
        if problem:
            program = Rung("program", False, problem)
    several = any(event.index > 0 for event in user.of(Traced))
    return [program, _recompiles(user, baseline)] if several else [program]


def _crowded(user: Outcome, baseline: Baseline) -> str:
    """Which graph holds several control-flow operators where gradients are computed.

    Torch 2.13's inductor can compute wrong gradients there; fine without gradients.
    """
    for event in user_traces(user):
        if event.conditionals > max(1, baseline.conditionals.get(event.key, 0)):
            name = event.key.rpartition("::")[2]
            return f"{name} has {event.conditionals} torch.cond in one graph"
    return ""


def _recompiles(user: Outcome, baseline: Baseline) -> Rung:
    """Graphs made in later calls, against those of the original.

    A number that the original kept out of its graphs and that changes from call to call is a
    guard now: Dynamo compiles once more, with the number dynamic, and then no more.  That is
    right where a third call shows it.  A break that only a later call meets cuts that call's
    graph, of which there may have been less before; where it left the call to Python whole, the
    call's one graph is what the fix is for.
    """
    left = {(event.key, event.index): len(event.breaks) for event in user_traces(user)}
    graphs = {(event.key, event.index): event.graphs for event in user_traces(user)}
    first: dict[str, int] = {}
    for key, index in graphs:
        first.setdefault(key, index)
    settled = []
    for (key, index), made in graphs.items():
        before = baseline.graphs.get((key, index), 0)
        # Where nothing at all was compiled before, or no more than functions that a frame calls
        # which was run as Python, there was nothing to recompile.
        begun = key in baseline.calls and baseline.graphs.get((key, first[key]), 0)
        begun = begun and not baseline.fallbacks.get(key)
        if index == first[key] or not begun:
            continue
        # What is compiled behind a break that is left depends on the side that the call took.
        so_far = max(n for (name, i), n in left.items() if name == key and i <= index)
        if made <= before + so_far:
            continue
        # From the call on that was left to Python, Dynamo compiles this function no more.
        left_to_python = any(name == key and i <= index for name, i in baseline.uncompiled)
        if made == 1 and not before and left_to_python:
            settled.append(key.rpartition("::")[2])
            continue
        later = [n for (name, i), n in graphs.items() if name == key and i > index]
        known = [n for (name, i), n in baseline.graphs.items() if name == key and i > index]
        if index == first[key] + 1 and later and sum(later) <= sum(known) and made - before == 1:
            settled.append(key.rpartition("::")[2])
            continue
        # Without a third call, a second graph is no more work than all that was cut before.
        so_many = sum(n for (name, i), n in graphs.items() if name == key and i <= index)
        were = sum(n for (name, i), n in baseline.graphs.items() if name == key and i <= index)
        # Nor is a whole graph for sizes of which the original made several pieces over again,
        # where calls that come later show that it was the last.
        if made - before == 1 and later and sum(later) <= sum(known) and so_many <= were:
            settled.append(key.rpartition("::")[2])
            continue
        if index == first[key] + 1 and not later and made == 1 and so_many <= were:
            settled.append(key.rpartition("::")[2])
            continue
        name = key.rpartition("::")[2]
        return Rung("recompiles", False, f"{name}: {made} graphs in call {index}, {before} before")
    detail = "none more than before"
    if settled:
        detail = f"one more for a later call of {', '.join(dict.fromkeys(settled))}"
    return Rung("recompiles", True, detail)


def _kept_out(user_breaks: Mapping[str, tuple[GraphBreak, ...]], baseline: Baseline) -> str:
    """Regions that now break on a function which the patch keeps from the compiler."""
    for key, found in user_breaks.items():
        before = {item.code for item in baseline.breaks.get(key, ())}
        if any(item.code in _KEPT_OUT and item.code not in before for item in found):
            name = key.rpartition("::")[2]
            return f"{name} breaks on a function that the patch keeps from the compiler"
    return ""


def _refused(user: Outcome, baseline: Baseline) -> str:
    """Regions that the compiler now refuses with an exception, where it only broke the graph."""
    for event in user_traces(user):
        if event.error and event.key not in baseline.refused and event.key in baseline.calls:
            name = event.key.rpartition("::")[2]
            return f"{name} raises under the user's own compile options: {_line(event.error)}"
    return ""


def _line(text: str) -> str:
    return " ".join(text.split())[:240]


def _first_change(baseline: Baseline, outcome: Outcome) -> str:
    old = baseline.shown.decode("utf-8", "replace").splitlines()
    new = outcome.shown.decode("utf-8", "replace").splitlines()
    for before, after in zip(old, new, strict=False):
        if before != after:
            return f"{before[:80]!r} became {after[:80]!r}"
    return f"{len(old)} lines became {len(new)}"


_FRACTION = re.compile(rb"[-+]?\d+\.\d+(?:e[-+]?\d+)?")
#: The relative tolerance of `torch.testing.assert_close` for float32, for either of two numbers.
_ROUNDING = 2.6e-6
#: Its absolute tolerance: a sum of what cancels keeps no more.  A number that is so small that this
#: would hide another one is not given it.
_CANCELS = 1e-5
_OF_ITS_SIZE = 1e-4
#: What a step in the last printed place may be of a number.
_LAST_PLACE = 0.01


def same_but_rounding(before: bytes, after: bytes) -> bool:
    """Whether two texts differ in the last places of fractions only.

    What is shown is made of values, and an operation in another order rounds differently.
    """
    if before == after:
        return True
    old, new = _FRACTION.findall(before), _FRACTION.findall(after)
    if _FRACTION.sub(b"#", before) != _FRACTION.sub(b"#", after) or len(old) != len(new):
        return False
    return all(_rounds_to(one, other) for one, other in zip(old, new, strict=True))


def _rounds_to(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    a, b = float(one), float(other)
    size = max(abs(a), abs(b))
    places = min(len(text.partition(b"e")[0].partition(b".")[2]) for text in (one, other))
    exponent = int(one.partition(b"e")[2] or b"0")
    step = 10.0 ** (exponent - places)
    cancels = min(_CANCELS, _OF_ITS_SIZE * size)
    return abs(a - b) <= max(min(1.001 * step, _LAST_PLACE * size), _ROUNDING * size, cancels)


_NUMBERS = re.compile(r"0x[0-9a-f]+|[-+]?[\d.]+(e[-+]?\d+)?")


def _other_words(baseline: Baseline, outcome: Outcome) -> tuple[str, str]:
    """How lines differ from those of the original, which prints others compiled than uncompiled.

    First from a line that both print, then from lines of which each prints one.  Numbers aside:
    times, say, which differ from run to run.  Lines of another count cannot be told apart.
    """
    texts = (baseline.shown, baseline.shown_compiled or b"", outcome.shown)
    plain, compiled, new = (text.decode("utf-8", "replace").splitlines() for text in texts)
    if not len(plain) == len(compiled) == len(new):
        return "", ""
    caveat = ""
    for lines in zip(plain, compiled, new, strict=True):
        one, other, now = (_NUMBERS.sub("#", line) for line in lines)
        change = f"{lines[0][:80]!r} became {lines[2][:80]!r}"
        if one == other != now:
            return change, caveat
        if now not in (one, other):
            caveat = caveat or change
    return "", caveat


def inherent_differences(outcome: Outcome) -> dict[tuple[str, str], Names]:
    """What a run of the *unpatched* program as a candidate found, by region and rung."""
    result: dict[tuple[str, str], Names] = {}
    for event in outcome.of(Compared):
        names = {name for finding in event.findings for name in (finding.name, finding.labelled)}
        key = (event.key, event.rung)
        result[key] = result.get(key, frozenset()) | names
    return result


def wants_inherent(candidate: Outcome) -> bool:
    """Whether a comparison found what the unpatched program, compiled, may show as well.

    That is anything in a region that still has breaks, gradients and results of inputs that hold
    NaN or infinities, for which the compiler's own decompositions differ from eager here and there,
    and what an `assert` raises.
    """
    return any(
        any(_of_no_number(finding) or _is_assert_of_dynamo(finding) for finding in event.findings)
        if event.rung.startswith("fullgraph-")
        else event.rung.startswith("partial-") and bool(event.findings)
        for event in candidate.of(Compared)
    )


def _of_no_number(finding: Finding) -> bool:
    """Whether a gradient or a result differs on inputs that hold NaN or infinities."""
    computed = finding.part in (Part.GRADIENT, Part.OUTPUT)
    return computed and finding.kind is not Kind.OTHER_ERROR and holds_no_numbers(finding.label)


_ASSERTED = re.compile(r"AssertionError\((.*)\)", re.DOTALL)


def _is_assert_of_dynamo(finding: Finding) -> bool:
    """Whether an `assert` on a tensor fails as Dynamo writes it: as an assertion of the graph.

    That one raises ``RuntimeError`` with the message of the `assert` ("assertion error" where it
    has none), in the user's own compiled program, too.
    """
    said = _ASSERTED.fullmatch(finding.before)
    if finding.kind is not Kind.OTHER_ERROR or said is None:
        return False
    return finding.after == f"RuntimeError({said[1] or 'assertion error'})"


#: Inputs that nobody gave: what a program leaves undefined there (a loop of no rounds, memory that
#: is not written, or is given back before it is read) says nothing of the calls that it makes.
_NOBODYS = frozenset({"nought", "minus", "strided"})


def is_nobodys(finding: Finding) -> bool:
    """Whether only numbers, or a layout, that nobody gave show it."""
    return finding.label in _NOBODYS


def unstable_names(findings: Iterable[Finding]) -> Names:
    """What two runs of the original disagreed on, without the values.

    What they disagreed on for numbers that nobody gave is named with these inputs: there alone it
    cannot be compared.
    """
    return frozenset(
        finding.labelled if is_nobodys(finding) else finding.name for finding in findings
    )


# -- reading events ------------------------------------------------------------------------------


def first_breaks(outcome: Outcome) -> dict[str, tuple[GraphBreak, ...]]:
    """By region: what keeps it from being one graph (empty when it is), over all its calls."""
    found: dict[str, dict[tuple[str, str, int, int], GraphBreak]] = {}
    for event in outcome.of(Traced):
        if event.backend != "user":
            known = found.setdefault(event.key, {})
            for item in event.breaks:
                known.setdefault(item.key, item)
    return {key: tuple(items.values()) for key, items in found.items()}


def all_breaks(outcome: Outcome) -> dict[str, tuple[GraphBreak, ...]]:
    """By region: every break that the user's own compile options met."""
    found: dict[str, dict[tuple[str, str, int, int], GraphBreak]] = {}
    for event in outcome.of(Traced):
        if event.backend == "user":
            known = found.setdefault(event.key, {})
            for item in event.breaks:
                known.setdefault(item.key, item)
    return {key: tuple(items.values()) for key, items in found.items()}


def user_traces(outcome: Outcome) -> list[Traced]:
    """What each call of each region met under the user's own options."""
    return [event for event in outcome.of(Traced) if event.backend == "user"]


def region_graphs(outcome: Outcome) -> dict[str, int]:
    """By region: graphs made for its first call under the user's own options."""
    return {event.key: event.graphs for event in reversed(user_traces(outcome))}


def region_sizes(outcome: Outcome) -> dict[str, tuple[int, ...]]:
    """By region: operators in each graph of its first call."""
    return {event.key: event.sizes for event in reversed(user_traces(outcome))}


def region_fallbacks(outcome: Outcome) -> dict[str, int]:
    """By region: frames of its first call that were left to Python."""
    return {event.key: event.fallbacks for event in reversed(user_traces(outcome))}


def later_graphs(outcome: Outcome) -> dict[str, int]:
    """By region: graphs made for its recorded calls after the first, where there were any."""
    found: dict[str, int] = {}
    first: set[str] = set()
    for event in user_traces(outcome):
        if event.key in first:
            found[event.key] = found.get(event.key, 0) + event.graphs
        first.add(event.key)
    return found
