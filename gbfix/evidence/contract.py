"""The contract: what "safe" quantifies over, and what a finding means for a patch.

A *kind of call* is what the types of a call's arguments say: dtypes, numbers of dimensions,
layouts, whether gradients are recorded, train or eval.  The program's kinds are those of its
recorded calls.  A variation of a recorded call lies *inside* them, *next to* them (a caller may
well bring such a call one day) or *far* from them.
"""

from __future__ import annotations

import dataclasses
import enum

from gbfix.evidence.finding import LOUD, Finding, Kind, Part


class Zone(enum.IntEnum):
    """How far a variation is from the kinds of calls that the program makes."""

    INSIDE = 0
    NEXT = 1
    FAR = 2


class Weight(enum.IntEnum):
    """What a finding does to a patch."""

    #: One plain sentence with the patch, which stays safe.
    LIMIT = 0
    #: The patch is unsafe.
    CAVEAT = 1
    #: The patch is wrong, and rejected.
    DIFFERENCE = 2


@dataclasses.dataclass(frozen=True)
class Kinds:
    """The kinds of the recorded calls of one region, taken together.

    ``modes`` holds True where a module was in train mode, False where one was in eval mode.
    ``one_row``: the leading size was 1 in every call.  ``asks_empty``: the text asks whether a
    tensor has elements or rows.  ``asks_nan``: it asks for NaN or infinities.  ``second_order``: it
    differentiates gradients.
    """

    gradients: bool = False
    modes: frozenset[bool] = frozenset()
    one_row: bool = False
    asks_empty: bool = False
    asks_nan: bool = False
    second_order: bool = False
    integers: bool = False

    def with_call(self, other: Kinds) -> Kinds:
        """The kinds with those of one more call."""
        return dataclasses.replace(
            self,
            gradients=self.gradients or other.gradients,
            modes=self.modes | other.modes,
            one_row=self.one_row and other.one_row,
            integers=self.integers or other.integers,
        )


@dataclasses.dataclass(frozen=True)
class Usage:
    """What the program does with what its regions give back, and how strict it wants to be.

    ``changes``: regions of which an input or output is changed in place afterwards.
    ``steps``: an optimizer takes steps that
    tell a zero gradient from none.  ``identity``: the text asks whether two objects are one,
    or for addresses.  ``leaves_autograd``: the text calls ``.numpy()`` or reads ``requires_grad``.
    ``reads_messages``: the text looks at what an error says.
    ``own_messages``: pieces of what the RuntimeErrors say that the text raises itself.
    ``any_callers``: calls may come from anywhere, not from this program alone.
    """

    changes: frozenset[str] = frozenset()
    steps: bool = False
    identity: bool = False
    leaves_autograd: bool = False
    reads_messages: bool = False
    own_messages: frozenset[str] = frozenset()
    any_callers: bool = False


#: Variations that no caller of the program's kinds brings.
_FAR = frozenset({"integer", "image", "fraction", "plain", "strided", "expanded", "aliased"})
#: Variations that a caller may well bring one day.
_NEXT = frozenset(
    {
        *("double", "half", "lower", "mixed", "mixed-rest", "bytes", "arrays", "scalars", "texts"),
        *("column", "columns", "longer", "other-words", "nought", "minus", "halves"),
        *("ragged", "ragged-rest", "ragged-2", "ragged-2-rest"),
    }
)
#: Variations that give numbers, attributes and globals other values: Dynamo compiles anew for them.
_OTHER_VALUES = frozenset({"numbers", "instance", "rebound"})
#: How the check of custom operators says that one is not as its fake.
_PROMISE = "BrokenPromise("
#: How a graph says that a size is not as it was taken to be.
_ASSERTION = "Runtime assertion failed for expression"
#: What torch and gbfix's operators say where a gradient would go through one that has none.
_NO_GRADIENT = ("Trying to backward through", "NotImplementedError(no gradient for")
#: Gradients of inputs that hold these differ by 0 * NaN here and there.
_NO_NUMBERS = frozenset({"nan", "inf", "-inf"})


def holds_no_numbers(label: str) -> bool:
    """Whether inputs with this label hold NaN or an infinity."""
    return label.rpartition("+")[2] in _NO_NUMBERS


def zone(label: str, variation: str, kinds: Kinds) -> Zone:
    """How far a variation is from the program's kinds of calls."""
    if "+" in label:
        # NaN where autograd does not look in the program: only a test for it keeps it out.
        if holds_no_numbers(label) and not kinds.asks_nan:
            return Zone.FAR
        label = label.partition("+")[0]
    if label == "twice":
        # A compiled function refuses to be differentiated twice, with or without a patch.
        return Zone.INSIDE if kinds.second_order else Zone.FAR
    if variation == "grad":
        return Zone.INSIDE if kinds.gradients else Zone.NEXT
    if label == "mode":
        return Zone.INSIDE if len(kinds.modes) > 1 else Zone.NEXT
    if label == "empty":
        return Zone.INSIDE if kinds.asks_empty else Zone.FAR
    if label == "grown" and kinds.one_row:
        return Zone.NEXT
    if label in _FAR:
        return Zone.FAR
    return Zone.NEXT if label in _NEXT else Zone.INSIDE


def _keeps_precision(finding: Finding) -> bool:
    """Whether a piece of state stays as precise as it was, where lower inputs made it less so.

    Where an attribute is given a new tensor in some calls only, its dtype depends on the data, and
    no graph can follow.
    """
    order = ("torch.bfloat16", "torch.float16", "torch.float32", "torch.float64")
    if finding.label != "lower" or (finding.kind, finding.part) != (Kind.DTYPE, Part.STATE):
        return False
    if finding.before not in order or finding.after not in order:
        return False
    return order.index(finding.before) < order.index(finding.after)


#: The errors of a name that nothing binds.
_UNBOUND = ("NameError(", "UnboundLocalError(")


def weigh(finding: Finding, key: str, kinds: Kinds, usage: Usage, *, eager: bool) -> Weight:
    """What a finding on a region means for the patch.

    ``eager`` says that both programs ran uncompiled.
    """
    where = zone(finding.label, finding.variation, kinds)
    if finding.kind is Kind.RAISES and finding.after.startswith(_UNBOUND):
        return Weight.DIFFERENCE  # whatever is given there: the patch lost what makes a name
    if finding.kind in (Kind.VALUE_FOR_NAN, Kind.UNDONE, Kind.LEFT):
        return Weight.CAVEAT if usage.any_callers else Weight.LIMIT
    if finding.variation == "grad" and any(text in _told(finding) for text in _NO_GRADIENT):
        # No recorded call sends a gradient there: that one input has none is said loudly.
        return Weight.CAVEAT if usage.any_callers else Weight.LIMIT
    if finding.variation == "grad" and finding.kind is Kind.NOT_COMPILED and finding.before:
        # The original cannot be differentiated there either: its error comes later, in backward.
        return Weight.CAVEAT if usage.any_callers else Weight.LIMIT
    if where is Zone.INSIDE:
        return _inside(finding, key, usage, eager=eager)
    if finding.detail.startswith(_PROMISE) or finding.after.startswith(_PROMISE):
        # Compiled code goes by the fake: what it then computes with is not always refused.
        return Weight.LIMIT if finding.variation == "layout" else Weight.CAVEAT
    if where is Zone.FAR:
        # Another *value*, without a word, for another sort of number: nobody would notice.
        silent = finding.kind is Kind.VALUE and finding.part in (Part.OUTPUT, Part.STATE)
        dtypes = finding.variation == "dtype"
        twice = finding.label == "twice" and usage.any_callers
        return Weight.CAVEAT if (silent and dtypes) or twice else Weight.LIMIT
    strict = Weight.CAVEAT if usage.any_callers else Weight.LIMIT
    if finding.label == "mode" and finding.kind is Kind.RAISES:
        return Weight.CAVEAT  # who trains a module evaluates it one day, and the other way round
    if (
        finding.variation == "arrays"
        and finding.label != "halves"
        and finding.kind is not Kind.ALIAS
    ):
        # Nothing in the text says that it is a number: a tensor, learnt perhaps, is as likely.
        return Weight.CAVEAT
    if finding.kind in LOUD or finding.kind is Kind.DOES_NOT_RAISE or finding.mild:
        return strict
    if finding.part is Part.GRADIENT and finding.kind is Kind.DIFFERS:
        return strict  # the backward pass raises
    if _comes_with_a_choice(finding) or _keeps_precision(finding):
        return strict
    return Weight.CAVEAT


def _told(finding: Finding) -> str:
    return f"{finding.after} {finding.detail}"


def _is_unread(finding: Finding, usage: Usage) -> bool:
    """Whether both raise, in words of torch's that nobody reads."""
    if finding.kind is not Kind.MESSAGE or usage.reads_messages:
        return False
    if _ASSERTION in finding.after:
        return True  # of a size that no graph can have
    own = any(piece in finding.before for piece in usage.own_messages)
    return finding.detail in ("RuntimeError", "IndexError") and not own


def _comes_with_a_choice(finding: Finding) -> bool:
    """Whether every choice that stays in the graph has this: the arm not taken is in it, too."""
    if finding.kind is Kind.DIFFERENTIABLE:
        return finding.after == "True"
    return finding.kind in (Kind.ZERO, Kind.ZERO_OF_NO_NUMBER, Kind.ALIAS)


def _inside(finding: Finding, key: str, usage: Usage, *, eager: bool) -> Weight:
    strict = Weight.CAVEAT if usage.any_callers else Weight.LIMIT
    if _comes_with_a_choice(finding):
        if finding.kind is Kind.ALIAS:
            matters = usage.identity or key in usage.changes
        elif finding.kind is Kind.ZERO:
            matters = usage.steps and not finding.place.startswith("in")
        elif finding.kind is Kind.ZERO_OF_NO_NUMBER:
            matters = False  # a step with the original's own gradients spoils the model as well
        else:
            matters = usage.leaves_autograd
        return Weight.CAVEAT if matters else strict
    if finding.kind is Kind.NOT_COMPILED and finding.variation in _OTHER_VALUES:
        return strict  # the graph breaks again there, as the original's does
    if finding.kind is Kind.SIZE_ERROR and finding.detail and not usage.reads_messages:
        return strict  # both raise: a library in the original, the graph's check before it here
    if finding.mild:
        return strict if _is_unread(finding, usage) else Weight.CAVEAT
    if finding.variation == "instance" and finding.kind not in LOUD:
        # A number that `__init__` reads is right for another instance, and stale once it changes.
        return Weight.CAVEAT
    loud = finding.kind in LOUD and finding.kind is not Kind.OTHER_ERROR
    if finding.label == "empty" and loud:
        return Weight.CAVEAT  # some text asks for emptiness; an error is no wrong result
    if finding.part is Part.GRADIENT and holds_no_numbers(finding.label) and eager:
        return Weight.CAVEAT
    return Weight.DIFFERENCE
