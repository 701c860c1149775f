"""Judges a candidate: reads the events of its runs and climbs the validation ladder.

Pure bookkeeping: what was measured happened in the worker.  The rungs, in the order in which they
are reported: ``source``, ``outputs``, ``gradients``, ``effects`` (patched eager against original
eager, on recorded and varied inputs), one for each backend under ``fullgraph=True``, ``program``
(the patched program as the user compiles it), ``recompiles``, ``branches``, ``constants``.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from gbfix.schema import GraphBreak, Rung, Span, Verdict
from gbfix.worker.protocol import Compared, Failed, Finished, Outcome, RegionCalled, Traced

_EFFECT_WORDS = ("stdout", "stderr", "logs ", "warnings ", "events ", "files ")
_IF_GRADIENTS = "if inputs required gradients: "
_GRADIENT_WORDS = ("gradient", "backward raises")


@dataclasses.dataclass
class Baseline:
    """What the original program did: calls recorded, graphs made, output, what is not fixed.

    ``unstable`` holds, by region, what two runs of the original disagreed on.
    """

    calls: Mapping[str, int]
    graphs: Mapping[tuple[str, int], int]
    breaks: Mapping[str, tuple[GraphBreak, ...]]
    shown: bytes
    stable_output: bool
    ended_by_itself: bool
    unstable: Mapping[str, tuple[str, ...]]
    raising: frozenset[tuple[str, int]] = frozenset()
    refused: frozenset[str] = frozenset()
    #: What the unpatched program, compiled with its graph breaks, does differently from eager (a
    #: tensor prints another ``grad_fn``, say): no fault of a patch that leaves breaks behind.
    #: By region and rung; None until it was measured.
    inherent: Mapping[tuple[str, str], tuple[str, ...]] | None = None
    #: By region: the most control-flow operators in one graph of the original.
    conditionals: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: Regions that accepted rewrites made (the halves of a split), and the region they came from.
    parts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: What the original printed when compiled, where that is something else than uncompiled.
    shown_compiled: bytes | None = None
    #: What accepted rewrites have proved; it holds for every later candidate, too.
    assumes: tuple[str, ...] = ()


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
        spans = touched.get(path, ())
        for line in removed_lines(old, text):
            if not any(span.line <= line <= span.end_line for span in spans):
                return Rung("source", False, f"line {line} changes outside of the rewrite")
    if not changed:
        return Rung("source", False, "the rewrite changes nothing")
    return Rung("source", True)


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
    matcher = difflib.SequenceMatcher(None, _lines(old), _lines(new), autojunk=False)
    for block in matcher.get_matching_blocks():
        if block.a < line <= block.a + block.size:
            return block.b + line - block.a
    return None


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
    candidate = dataclasses.replace(
        candidate, events=[_assuming(event, assumes) for event in candidate.events]
    )
    candidate, user = (run.without_traces(baseline.raising) for run in (candidate, user))
    next_breaks = first_breaks(candidate)
    user_breaks = all_breaks(user)
    graphs = region_graphs(user)
    known = set(baseline.calls)
    seen = {event.key for run in (candidate, user) for event in run.of(RegionCalled)}
    fresh = tuple(sorted(seen - known))
    for key in fresh:
        # What a part still breaks on, its origin still breaks on.
        origin = baseline.parts.get(key, target)
        for found in (next_breaks, user_breaks):
            found[origin] = (*found.get(origin, ()), *found.pop(key, ()))
        graphs[origin] = graphs.get(origin, 0) + graphs.pop(key, 0)
    for event in candidate.of(Traced):
        if any(_same_place(found, avoid, avoid_path, avoid_code) for found in event.breaks):
            what = event.breaks[0]
            cause = what.gb_type if what.code.startswith("GB") else what.explanation
            rungs.append(Rung("break", False, f"still breaks: {what.code}: {_line(cause)}"))
            break
    crashed = _program_failure(candidate, baseline)
    if crashed:
        rungs.append(Rung("outputs", False, crashed))
    if all(rung.passed for rung in rungs):
        rungs += _eager_rungs(candidate, baseline)
        rungs += _backend_rungs(candidate, baseline, backends, next_breaks, target)
        fewer = _FEWER in assumes
        rungs += _user_rungs(
            candidate, user, baseline, user_breaks, next_breaks,
            fewer_texts=fewer, keeps_out=keeps_out,
        )  # fmt: skip
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
    )


_ITERATOR_BECAME_LIST = re.compile(
    r"(input after the call.*)\[\d\]: "
    r"'(?:object|\w*iterator|zip|map|enumerate|filter|reversed)' became 'list'"
)
_BECAME_DIFFERENTIABLE = re.compile(r"output.*: requires_grad False became True")
#: ``torch.compiler.disable()``: what calls such a function breaks there.
_KEPT_OUT = frozenset({"GB0098", "GB0099"})
_FEWER = "texts-only-in-eager"
_TEXTS = re.compile(
    r"(stdout|logs|warnings)( of the backward pass)? differ: |events happen in another order"
)
_OTHER_EXCEPTION = re.compile(r"raises \w+\(.*\) instead of ")


def _assuming(event: object, assumes: Sequence[str]) -> object:
    """A comparison without what the rewrite's own proof covers (see `Rewrite.assumes`)."""
    if not isinstance(event, Compared) or not assumes:
        return event
    differences = list(event.differences)
    caveats = list(event.caveats)
    if "arguments-change" in assumes:
        matches = [_ITERATOR_BECAME_LIST.search(text) for text in differences + caveats]
        places = tuple(match.group(1) for match in matches if match)
        differences = [text for text in differences if not _mentions(text, places)]
        caveats = [text for text in caveats if not _mentions(text, places)]
    if "exception-type-changes" in assumes:
        caveats += [text for text in differences if _OTHER_EXCEPTION.match(text)]
        differences = [text for text in differences if not _OTHER_EXCEPTION.match(text)]
    if "zero-gradients" in assumes:
        texts = [text.removeprefix(_IF_GRADIENTS) for text in differences]
        found = [bool(_BECAME_DIFFERENTIABLE.match(text)) for text in texts]
        caveats += [text for text, is_one in zip(differences, found, strict=True) if is_one]
        differences = [text for text, is_one in zip(differences, found, strict=True) if not is_one]
    if _FEWER in assumes and event.rung != "eager":
        caveats += [text for text in differences if _TEXTS.match(text)][:1]
        differences = [text for text in differences if not _TEXTS.match(text)]
    return dataclasses.replace(event, differences=tuple(differences), caveats=tuple(caveats))


def _mentions(text: str, places: Sequence[str]) -> bool:
    return any(text.removeprefix(_IF_GRADIENTS).startswith(place) for place in places)


def _same_place(found: GraphBreak, lines: frozenset[int], path: str, code: str) -> bool:
    site = found.site
    if site is None or site.line not in lines or site.path != path:
        return False
    return found.code == code or not found.code.startswith("GB")


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


def _eager_rungs(candidate: Outcome, baseline: Baseline) -> list[Rung]:
    """Patched eager against original eager, sorted by what differs."""
    events = [event for event in candidate.of(Compared) if event.rung == "eager"]
    done = {(event.key, event.index) for event in events}
    missing = [
        f"call {index} of {key.rpartition('::')[2]} was not reached"
        for key, count in baseline.calls.items()
        for index in range(count)
        if (key, index) not in done
    ]
    groups: dict[str, list[str]] = {"outputs": missing, "gradients": [], "effects": []}
    caveats: dict[str, list[str]] = {"outputs": [], "gradients": [], "effects": []}
    for event in events:
        unstable = baseline.unstable.get(event.key, ())
        for text in event.differences:
            if _unstable(text, unstable):
                _add(caveats["outputs"], "the original is not deterministic here: not compared")
                continue
            _add(groups[_kind(text)], text)
        for text in event.caveats:
            _add(caveats[_kind(text)], text)
    count = sum(event.perturbed for event in events)
    notes = dict.fromkeys(text for event in events for text in event.notes)
    detail = "; ".join((f"{count} comparisons", *notes))
    return [
        Rung(
            name,
            not texts,
            texts[0] if texts else (detail if name == "outputs" else ""),
            tuple(caveats[name]),
        )
        for name, texts in groups.items()
    ]


def _backend_rungs(
    candidate: Outcome,
    baseline: Baseline,
    backends: Sequence[str],
    next_breaks: Mapping[str, tuple[GraphBreak, ...]],
    target: str,
    *,
    any_inputs: bool = False,
) -> list[Rung]:
    rungs = []
    for backend in backends:
        names = (f"fullgraph-{backend}", f"partial-{backend}")
        events = [event for event in candidate.of(Compared) if event.rung in names]
        differences: list[str] = []
        caveats: list[str] = []
        for event in events:
            unstable = baseline.unstable.get(event.key, ())
            inherent = (baseline.inherent or {}).get((event.key, event.rung), ())
            broken = (baseline.inherent or {}).get((event.key, f"partial-{backend}"), ())
            for text in event.differences:
                if _unstable(text, unstable) or _name(text) in inherent:
                    continue
                if (any_inputs or _of_no_number(text)) and _labelled(text) in broken:
                    continue
                _add(differences, text)
            for text in event.caveats:
                if _name(text) not in inherent:
                    _add(caveats, text)
        if not events:
            rungs.append(Rung(backend, False, "was not compiled"))
            continue
        partial = sorted({e.key.rpartition("::")[2] for e in events if e.rung == names[1]})
        count = sum(event.perturbed for event in events)
        detail = f"fullgraph=True, {count} comparisons"
        if partial:
            detail = f"{', '.join(partial)} still breaks elsewhere; compared with graph breaks"
        if differences:
            detail = differences[0]
        rungs.append(Rung(backend, not differences, detail, tuple(caveats)))
    return rungs


def is_late(outcome: Outcome) -> bool:
    """Whether a run, or one that stands in for a fork of it, was ended by its time limit."""
    return outcome.ended == "timeout" or any(e.kind == "timeout" for e in outcome.of(Failed))


def one_backend(
    outcome: Outcome, plain: Outcome | None, baseline: Baseline, backend: str, limit: float
) -> Rung:
    """The rung of a brief run under one more backend; ``plain`` is the original's, if it failed."""
    if is_late(outcome):
        return not_tried(backend, f"did not end within {limit:g} s")
    problem = _program_failure(outcome, baseline)
    if problem:
        return Rung(backend, False, problem)
    if plain is not None:
        baseline = dataclasses.replace(baseline, inherent=inherent_differences(plain))
    (rung,) = _backend_rungs(outcome, baseline, (backend,), {}, "", any_inputs=True)
    return rung


def not_tried(backend: str, why: str) -> Rung:
    """The rung of a backend that was not tried to the end: no verdict, and no ground for "safe"."""
    caveat = f"not tried under {backend}, where such patches went wrong before: the check {why}"
    return Rung(backend, None, why, (f"{caveat} (--inductor-timeout gives it longer)",))


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
            if whole and outcome.shown != baseline.shown and not (fewer_texts and outcome is user):
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
    crowded = {
        event.key.rpartition("::")[2]: event.conditionals
        for event in user_traces(user)
        if event.conditionals > max(1, baseline.conditionals.get(event.key, 0))
    }
    if crowded and program.passed:
        ((name, count), *_) = crowded.items()
        caveat = (
            f"{name} has {count} torch.cond in one graph: torch 2.13's inductor can compute wrong "
            "gradients there (fine without gradients)"
        )
        program = dataclasses.replace(program, caveats=(*program.caveats, caveat))
    several = any(event.index > 0 for event in user.of(Traced))
    return [program, _recompiles(user, baseline)] if several else [program]


def _recompiles(user: Outcome, baseline: Baseline) -> Rung:
    """Graphs made in later calls, against those of the original.

    A number that the original kept out of its graphs and that changes from call to call is a
    guard now: Dynamo compiles once more, with the number dynamic, and then no more.  That is
    right where a third call shows it.
    """
    graphs = {(event.key, event.index): event.graphs for event in user_traces(user)}
    first: dict[str, int] = {}
    for key, index in graphs:
        first.setdefault(key, index)
    settled = []
    for (key, index), made in graphs.items():
        before = baseline.graphs.get((key, index), 0)
        # Where nothing at all was compiled before, there was nothing to recompile.
        begun = key in baseline.calls and baseline.graphs.get((key, first[key]), 0)
        if index == first[key] or not begun:
            continue
        if made <= before:
            continue
        later = [n for (name, i), n in graphs.items() if name == key and i > index]
        known = [n for (name, i), n in baseline.graphs.items() if name == key and i > index]
        if index == first[key] + 1 and later and sum(later) <= sum(known) and made - before == 1:
            settled.append(key.rpartition("::")[2])
            continue
        name = key.rpartition("::")[2]
        return Rung("recompiles", False, f"{name}: {made} graphs in call {index}, {before} before")
    detail = "none more than before"
    if settled:
        detail = f"one more for the second call of {', '.join(settled)}, none for the third"
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


def _kind(text: str) -> str:
    bare = text.removeprefix(_IF_GRADIENTS)
    if bare.startswith(_EFFECT_WORDS):
        return "effects"
    if bare.startswith(_GRADIENT_WORDS) or bare.endswith(
        ("gets a zero gradient instead of none", "gets no gradient instead of a zero one")
    ):
        return "gradients"
    return "outputs"


def inherent_differences(outcome: Outcome) -> dict[tuple[str, str], tuple[str, ...]]:
    """What a run of the *unpatched* program as a candidate found, by region and rung."""
    result: dict[tuple[str, str], tuple[str, ...]] = {}
    for event in outcome.of(Compared):
        texts = (*event.differences, *event.caveats)
        names = tuple(name for text in texts for name in (_name(text), _labelled(text)))
        key = (event.key, event.rung)
        result[key] = (*result.get(key, ()), *names)
    return result


def wants_inherent(candidate: Outcome) -> bool:
    """Whether a comparison found what the unpatched program, compiled, may show as well.

    That is anything in a region that still has breaks, and gradients of inputs that hold NaN or
    infinities, for which the compiler's own decompositions differ from eager here and there.
    """
    return any(
        any(_of_no_number(text) for text in event.differences)
        if event.rung.startswith("fullgraph-")
        else event.rung.startswith("partial-") and bool(event.differences or event.caveats)
        for event in candidate.of(Compared)
    )


def _of_no_number(text: str) -> bool:
    """Whether a gradient differs on inputs that hold NaN or infinities."""
    return text.startswith("gradient of ") and text.endswith(
        ("(inputs: nan)", "(inputs: inf)", "(inputs: -inf)")
    )


def _labelled(text: str) -> str:
    """What differs with the inputs that showed it, without values."""
    return f"{_name(text)} on {text.rpartition('(inputs: ')[2]}"


def _name(text: str) -> str:
    """What differs, without values and without the inputs that showed it."""
    bare = text.removeprefix(_IF_GRADIENTS)
    kept = _IF_GRADIENTS if bare != text else ""
    # A list of times grows: its items are one thing.
    return kept + re.sub(r"\.\d+", ".*", bare.partition(":")[0].partition(" (")[0])


def _unstable(text: str, unstable: Iterable[str]) -> bool:
    """Whether the original, run twice, differed in the same thing."""
    return _name(text) in unstable


def unstable_names(texts: Iterable[str]) -> tuple[str, ...]:
    """What two runs of the original disagreed on, without the values."""
    return tuple(dict.fromkeys(_name(text) for text in texts))


def _add(texts: list[str], text: str) -> None:
    if text not in texts:
        texts.append(text)


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


def later_graphs(outcome: Outcome) -> dict[str, int]:
    """By region: graphs made for its recorded calls after the first, where there were any."""
    found: dict[str, int] = {}
    first: set[str] = set()
    for event in user_traces(outcome):
        if event.key in first:
            found[event.key] = found.get(event.key, 0) + event.graphs
        first.add(event.key)
    return found
