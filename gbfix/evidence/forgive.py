"""What a rewrite has proved from the text, and the ladder need not hold against it."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Collection, Sequence

from gbfix.evidence.finding import LOUD, Finding, Kind, Part


class Assumption(enum.StrEnum):
    """See `gbfix.codemod.Rewrite.assumes`."""

    #: Callers pass a list where they passed an iterator.
    ARGUMENTS_CHANGE = "arguments-change"
    #: Module-level state that the rewrite reads earlier never changes.
    STATE_IS_CONSTANT = "state-is-constant"
    EXCEPTION_TYPE_CHANGES = "exception-type-changes"
    #: Results depend on more parameters than before.
    ZERO_GRADIENTS = "zero-gradients"
    #: Compiled code prints, logs or warns less.
    TEXTS_ONLY_IN_EAGER = "texts-only-in-eager"
    #: Nothing in the project changes what the rewrite reads earlier, or less often.
    READS_ONCE = "reads-once"
    #: What a call did once, at first (start a program, look into a file), is done at the import.
    ASKS_AT_IMPORT = "asks-at-import"
    #: Where the rewrite acts, its condition has one truth value whatever the data.
    ONE_SIDED = "one-sided"
    #: Conditions are asked in another order; what each asks, and what follows from it, is the same.
    SAME_QUESTIONS = "same-questions"
    #: Nothing in the project asks whether an argument requires a gradient, or for its gradient.
    FLAGS_UNASKED = "flags-unasked"
    #: A graph of gradients that the original uses up is still there.
    KEEPS_GRAPH = "keeps-graph"
    #: What is set before a check fails is not set then, and nothing in the project goes on after
    #: such an error.
    UNSET_AT_ERRORS = "unset-at-errors"
    #: A number becomes text; a tensor in its place would give the text of its value.
    TEXT_OF_NUMBERS = "text-of-numbers"


_ITERATOR = re.compile(r"'(?:object|\w*iterator|zip|map|enumerate|filter|reversed)'")
_ARGUMENT = re.compile(r"(?:args|kwargs)\.\w+")
_TEXTS = frozenset({"stdout", "stderr", "logs", "warnings", "order", "later stdout", "later logs"})


def _is_of_a_flag(finding: Finding) -> bool:
    """Whether an argument came in without asking for a gradient, and would have been marked so."""
    if finding.part is Part.INPUT:
        return finding.kind is Kind.DIFFERENTIABLE and finding.after == "False"
    of_argument = finding.part is Part.GRADIENT and finding.place.startswith("in.")
    return of_argument and finding.kind is Kind.LOST and finding.variation != "grad"


def _is_used_up(finding: Finding) -> bool:
    """Whether the original's backward alone raises an error, as its graph was used up before."""
    return (
        finding.part is Part.GRADIENT
        and finding.place == "backward"
        and finding.detail == "original"
        and "backward through the graph a second time" in finding.after
    )


def _is_no_event_any_more(finding: Finding) -> bool:
    """Whether the first call starts no program, where the original's did."""
    here = finding.part is Part.EFFECT and finding.place == "events" and finding.label == "base"
    return here and finding.after.strip("'") == "[]"


def _of_a_graph(finding: Finding) -> Kind:
    """What every graph leaves behind that does not come to its end."""
    return Kind.LEFT if finding.part is Part.SETTING else Kind.UNDONE


@dataclasses.dataclass(frozen=True)
class Forgiven:
    """What is left of findings, and those that count as caveats, whatever they are else."""

    left: tuple[Finding, ...]
    caveats: tuple[Finding, ...]


def forgive(findings: Sequence[Finding], assumes: Collection[str], *, compiled: bool) -> Forgiven:
    """The findings without what the rewrite's own proof covers."""
    left = list(findings)
    caveats: list[Finding] = []
    if Assumption.ARGUMENTS_CHANGE in assumes:
        places = tuple(
            finding.place.rpartition("[")[0]
            for finding in left
            if finding.part is Part.INPUT
            and _ITERATOR.fullmatch(finding.before)
            and finding.after == "'list'"
        )
        if places:
            left = [finding for finding in left if not finding.place.startswith(places)]
            # How far a generator has come is state of the argument; a list has none.
            left = [
                f for f in left if f.kind is not Kind.MISSING or not _ARGUMENT.fullmatch(f.place)
            ]
    if Assumption.FLAGS_UNASKED in assumes:
        left = [finding for finding in left if not _is_of_a_flag(finding)]
    if Assumption.TEXT_OF_NUMBERS in assumes:
        left = [f for f in left if f.variation != "arrays" or f.label == "halves"]
    if Assumption.KEEPS_GRAPH in assumes:
        left = [finding for finding in left if not _is_used_up(finding)]
    if Assumption.UNSET_AT_ERRORS in assumes:
        left = [dataclasses.replace(it, kind=_of_a_graph(it)) if it.unset else it for it in left]
    if Assumption.ASKS_AT_IMPORT in assumes:
        gone = {f.label for f in left if _is_no_event_any_more(f)}
        left = [f for f in left if not _is_no_event_any_more(f)]
        shown = {f.label for f in left if f.part is Part.EFFECT and f.place != "order"}
        # One event fewer is another order, too.
        left = [f for f in left if f.place != "order" or f.label not in gone - shown]
    if Assumption.EXCEPTION_TYPE_CHANGES in assumes:
        caveats += [finding for finding in left if finding.kind is Kind.OTHER_ERROR]
        left = [finding for finding in left if finding.kind is not Kind.OTHER_ERROR]
    if Assumption.TEXTS_ONLY_IN_EAGER in assumes and compiled:
        texts = [f for f in left if f.part is Part.EFFECT and f.place in _TEXTS]
        caveats += texts[:1]
        left = [finding for finding in left if finding not in texts]
    if {Assumption.READS_ONCE, Assumption.STATE_IS_CONSTANT} & set(assumes):
        left = [f for f in left if f.variation != "instance" or f.kind in LOUD]
    return Forgiven(tuple(left), tuple(caveats))
