"""One difference between two runs of a call, as a record."""

from __future__ import annotations

import dataclasses
import enum
import re


class Part(enum.StrEnum):
    """Which part of what a call does differs."""

    OUTPUT = "output"
    INPUT = "input"
    STATE = "state"
    GRADIENT = "gradient"
    EXCEPTION = "exception"
    EFFECT = "effect"
    RANDOM = "random"
    SETTING = "setting"
    RUN = "run"


class Kind(enum.StrEnum):
    """What sort of difference it is."""

    # Values, wherever they are.
    VALUE = "value"
    #: Numbers of a compiler's kernel where the operation itself gives NaN.
    VALUE_FOR_NAN = "value-for-nan"
    SHAPE = "shape"
    DTYPE = "dtype"
    DEVICE = "device"
    #: Another class of tensor, another Python type, another number of items.
    TYPE = "type"
    #: ``requires_grad`` of a tensor.
    DIFFERENTIABLE = "differentiable"
    #: Which other tensor an output is, or shares memory with.
    ALIAS = "alias"
    STRIDES = "strides"
    #: A number of numpy's that is Python's now.
    NUMBER_CLASS = "number-class"
    #: A function that is given back has another text: what it computes later is not known.
    TEXT = "text"
    #: A piece of state is missing afterwards, or still there.
    MISSING = "missing"
    STAYS = "stays"
    #: What a call changed before it raised: a graph changes nothing where it does not come to its
    #: end.
    UNDONE = "undone"
    #: A mode that a graph had switched when it raised, and that nothing switches back.
    LEFT = "left"
    # Gradients.
    LOST = "lost"
    NEW = "new"
    #: A gradient of zeros instead of none, and the other way round.
    ZERO = "zero"
    NONE = "none"
    #: Zero times NaN or infinity instead of none, where the original's parameters got such, too.
    ZERO_OF_NO_NUMBER = "zero-of-no-number"
    # Exceptions.
    RAISES = "raises"
    DOES_NOT_RAISE = "does-not-raise"
    OTHER_ERROR = "other-error"
    #: The graph refuses a size before the program's own error does.
    SIZE_ERROR = "size-error"
    MESSAGE = "message"
    PARTS = "parts"
    # The run itself.
    DIFFERS = "differs"
    SLOW = "slow"
    NOT_TRIED = "not-tried"
    NOT_COMPILED = "not-compiled"
    NOTHING_COMPILED = "nothing-compiled"
    FAILS_TO_COMPILE = "fails-to-compile"
    #: A custom operator gave something else than its fake or its schema said.
    PROMISE = "promise"


#: Findings that concern a caller who looks closely, and no value: a patch may have them.
MILD = frozenset(
    {
        Kind.ALIAS,
        Kind.STRIDES,
        Kind.NUMBER_CLASS,
        Kind.TEXT,
        Kind.ZERO,
        Kind.NONE,
        Kind.ZERO_OF_NO_NUMBER,
        Kind.SIZE_ERROR,
        Kind.MESSAGE,
        Kind.PARTS,
        Kind.NOT_COMPILED,
        Kind.PROMISE,
    }
)
#: Findings that somebody notices at once, as an exception says so.
LOUD = frozenset({Kind.RAISES, Kind.OTHER_ERROR, Kind.SIZE_ERROR, Kind.NOT_COMPILED, Kind.PROMISE})


@dataclasses.dataclass(frozen=True)
class Finding:
    """Where the original and the patched program differ on one variation of one recorded call.

    ``place`` names the thing (``output[0]``, ``self.weight``, ``stdout``), ``before`` and
    ``after`` what it was in the two (``detail`` where a summary says more: how far values are
    apart).  ``label`` and ``variation`` are those of the inputs (see `gbfix.worker.perturb`).
    ``unset``: both raise, and state that the original had set by then is not set in the graph.
    """

    kind: Kind
    part: Part
    place: str = ""
    label: str = "base"
    variation: str = "values"
    before: str = ""
    after: str = ""
    detail: str = ""
    unset: bool = False

    @property
    def mild(self) -> bool:
        return self.kind in MILD

    @property
    def name(self) -> tuple[str, str]:
        """What differs, without values and inputs; items of a growing list are one thing."""
        return (self.part, re.sub(r"\.\d+", ".*", self.place) or self.kind)

    @property
    def labelled(self) -> tuple[str, str, str]:
        """What differs, with the inputs that showed it."""
        return (*self.name, self.label)
