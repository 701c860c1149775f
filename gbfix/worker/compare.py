"""Finds where two shots of the same call differ.

Every difference is a `gbfix.evidence.Finding`; what it means for a patch is decided elsewhere
(`gbfix.evidence.contract`), and nothing is left out here but what repeats itself.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Mapping
from typing import Any

import torch

from gbfix.evidence import Finding, Kind, Part
from gbfix.evidence.contract import holds_no_numbers
from gbfix.rewriting.assertions import PREFIX
from gbfix.worker import settings
from gbfix.worker.effects import Effects
from gbfix.worker.perturb import CHAOS, of_nudged
from gbfix.worker.shots import Shot
from gbfix.worker.values import FunctionImage, TensorImage, Whose

#: More findings than this on one shot, or on one call, repeat themselves.
_MANY = 40
_MOST = 4000
_ASPECTS = (
    ("shape", Kind.SHAPE),
    ("dtype", Kind.DTYPE),
    ("device", Kind.DEVICE),
    ("kind", Kind.TYPE),
    ("requires_grad", Kind.DIFFERENTIABLE),
)
#: Modes that code switches for a while.
_MODES = frozenset({"grad mode", "autocast"})
#: Numbers in a text: their last places are inductor's own.
_DIGITS = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]\d+)?|\s+")
_DYNAMO = "torch._dynamo.exc.TorchDynamoException"
#: How a graph refuses a size that it was not made for; the second is how inductor's code does, the
#: last how a patch does.
_OF_SIZES = re.compile(
    rf"Runtime assertion failed for expression|^\(?u\d+\b[^:]* [<>=]=? |^{PREFIX}"
)
#: Whose error a graph's check came before, in the ``detail`` of a finding.
OF_A_LIBRARY = "of a library"
#: Variations that change what kind of inputs these are, not only their values.
_INVENTED = frozenset(
    {
        "shape",
        "dtype",
        "layout",
        "numbers",
        "instance",
        "defaults",
        "alias",
        "flags",
        "words",
        "plain",
        "mode",
        "arrays",
    }
)
#: State that is found by following names in code, which a patch may move to other functions.
_ELSEWHERE = ("global.", "class.", "function.", "default.", "closure.")


@dataclasses.dataclass
class Comparison:
    """``mode`` is ``eager`` for patched eager against original eager, else the backend's name."""

    mode: str
    findings: list[Finding] = dataclasses.field(default_factory=list)
    #: Whether Dynamo made graphs of the patched program, whatever ran them.
    graphs: bool = False
    count: int = 0
    #: Labels of inputs of other sizes on which the original raised an error.
    refused: set[str] = dataclasses.field(default_factory=set)
    #: How far a change in the last digits of the inputs moves what the original gives.
    sensitivity: float = 0.0
    #: How far the last digits of inputs with this label move the original's outputs, or gradients.
    moves: Mapping[tuple[str, Part], float] = dataclasses.field(default_factory=dict)

    @property
    def compiled(self) -> bool:
        return self.mode != "eager"

    @property
    def differences(self) -> list[Finding]:
        """Findings that concern values, errors or effects."""
        return [finding for finding in self.findings if not finding.mild]

    @property
    def caveats(self) -> list[Finding]:
        """Findings that concern a caller who looks closely."""
        return [finding for finding in self.findings if finding.mild]

    @property
    def _tight(self) -> bool | None:
        """True for eager against eager: the same operations, so that tiny values must agree.

        None for inductor, which fuses and reorders floating-point operations.
        """
        return None if self.mode == "inductor" else not self.compiled

    def note(self, finding: Finding) -> None:
        """Keep a finding, unless an equal one is there."""
        if finding not in self.findings and len(self.findings) < _MOST:
            self.findings.append(finding)

    def add(self, before: Shot, after: Shot) -> None:
        """Compare two shots with the same label; findings carry the label."""
        self.count += 1
        if before.error is not None and before.kind == "shape":
            self.refused.add(before.label)
        values = before.label.rpartition("+")[2].removeprefix("grad-")
        moves = {part: by for (label, part), by in self.moves.items() if label == values}
        found = Findings(before.label, self.sensitivity, moves=moves, graphs=self.graphs)
        tight = self._tight
        self._errors(before, after, found)
        if before.error is None and after.error is None:
            # Products of rows alone, and of all rows at once, round apart; where inputs (or
            # weights) are a thousand times as large, that shows.  All else is compared sharply
            # with the others.
            rounds = self.compiled or before.label.endswith("scaled")
            found.diff(
                before.result, after.result, Part.OUTPUT, "output",
                strict=not self.compiled, tight=tight, slack=0.0 if rounds else None,
            )  # fmt: skip
        both = before.error is not None and after.error is not None
        if both and before.kind in _INVENTED:
            # How far each one came before it raised is no contract either.
            pass
        elif (before.error is None) == (after.error is None):
            held = Findings(before.label, self.sensitivity, moves=moves, graphs=self.graphs)
            held.diff(before.inputs, after.inputs, Part.INPUT, "input after the call", tight=tight)
            self._state(before, after, held)
            if both and self.graphs and before.error_parts is None:
                # A graph that does not come to its end has set no attributes yet.  (What the
                # program's own code raises is a part of what it does, and so is what it set.)
                for finding in held.findings:
                    unset = finding.kind in (Kind.MISSING, Kind.STAYS)
                    kind = Kind.UNDONE if unset else finding.kind
                    held_back = finding.part is Part.STATE
                    found.findings.append(dataclasses.replace(finding, kind=kind, unset=held_back))
            elif both and self.graphs:
                for finding in held.findings:
                    unset = finding.part is Part.STATE
                    found.findings.append(dataclasses.replace(finding, unset=unset))
            else:
                found.findings += held.findings
            self._gradients(before, after, found)
            self._effects(before, after, found)
            for name, digest in before.rng.items():
                if after.rng.get(name) != digest:
                    found.add(Kind.DIFFERS, Part.RANDOM, name)
            self._settings(before, after, found)
        if before.kind == "grad" and (before.error is not None or before.grad_error is not None):
            return
        for finding in found.findings:
            self.note(dataclasses.replace(finding, label=before.label, variation=before.kind))

    def _settings(self, before: Shot, after: Shot, found: Findings) -> None:
        for name in settings.COMPILED if self.compiled else before.settings:
            old, new = before.settings.get(name), after.settings.get(name)
            if name == "environment" and self.mode == "inductor":
                continue  # its C++ build sets variables of its own
            if old == new:
                continue
            # What torch raises within a graph leaves it in the mode that the graph had switched.
            both = before.error is not None and after.error is not None
            left = both and self.graphs and name in _MODES
            own = before.error_parts is not None
            kind = Kind.LEFT if left and not own else Kind.DIFFERS
            found.findings.append(Finding(kind, Part.SETTING, name, unset=bool(left and own)))

    def _errors(self, before: Shot, after: Shot, found: Findings) -> None:
        if before.error is None and after.error is None:
            return
        if before.error is None:
            assert after.error is not None
            found.add(Kind.RAISES, Part.EXCEPTION, after=error_text(after.error))
        elif before.kind in _INVENTED and before.error_parts is None:
            # The original does not take these inputs, and it was not its own code that said so.
            return
        elif after.error is None:
            found.add(Kind.DOES_NOT_RAISE, Part.EXCEPTION, before=error_text(before.error))
        elif before.error[0] != after.error[0]:
            if not _is_the_same_error(before, after):
                late = before.label != "base" and _OF_SIZES.search(after.error[1])
                # No result in either: the graph asks for what it took for granted of a size.
                kind = Kind.SIZE_ERROR if late else Kind.OTHER_ERROR
                found.add(
                    kind,
                    Part.EXCEPTION,
                    before=error_text(before.error),
                    after=error_text(after.error),
                    detail=OF_A_LIBRARY if late and before.error_parts is None else "",
                )
        elif before.error[1] != after.error[1] and not self.compiled:
            found.add(
                Kind.MESSAGE, Part.EXCEPTION, detail=before.error[0],
                before=repr(_short(before.error[1])), after=repr(_short(after.error[1])),
            )  # fmt: skip
        elif before.error_parts is not None and not self.compiled:
            parts = Findings()
            if after.error_parts is not None:
                parts.diff(
                    before.error_parts, after.error_parts, Part.EXCEPTION, "", tight=self._tight
                )
            for part in parts.findings[:1]:
                found.findings.append(dataclasses.replace(part, kind=Kind.PARTS))

    def _state(self, before: Shot, after: Shot, found: Findings) -> None:
        for name, image in before.tensors.items():
            if name in after.tensors:
                found.diff(image, after.tensors[name], Part.STATE, name, tight=self._tight)
            elif not name.startswith(_ELSEWHERE):
                found.add(Kind.MISSING, Part.STATE, name)
        for name in sorted(before.changed | after.changed):
            if name not in before.state:
                # New in the patched program: what it keeps for itself is no difference yet.
                continue
            value = before.state[name]
            if name in after.state:
                now = after.state[name]
                if _same_number(value, now):
                    found.add(Kind.NUMBER_CLASS, Part.STATE, name)
                    continue
                found.diff(value, now, Part.STATE, name, tight=self._tight)
            elif _looked_for(name, after):
                found.add(Kind.MISSING, Part.STATE, name)
        for name in before.gone:
            if name in after.state:
                found.add(Kind.STAYS, Part.STATE, name)

    def _gradients(self, before: Shot, after: Shot, found: Findings) -> None:
        if before.grad_error is not None or after.grad_error is not None:
            if (before.grad_error is None) != (after.grad_error is None):
                error = after.grad_error or before.grad_error
                assert error is not None
                who = "patched" if after.grad_error else "original"
                told = error_text(error)
                found.add(Kind.DIFFERS, Part.GRADIENT, "backward", after=told, detail=who)
            return
        if not before.grads and not holds_no_numbers(before.label):
            # Nothing of the original's result has a gradient.  NaN that the patched one's sends
            # back would spoil those of others.  (Other numbers: the original was perhaps given
            # the same tensors in a form that no variation marks, an iterator.)
            for name, image in after.grads.items():
                if image is not None and not bool(torch.isfinite(image.data).all()):
                    found.add(Kind.NEW, Part.GRADIENT, name)
        for name, image in before.grads.items():
            other = after.grads.get(name)
            if image is None and other is None:
                continue
            if image is None or other is None:
                given = image if other is None else other
                zero = bool((given.data == 0).all())
                if zero:
                    kind = Kind.NONE if other is None else Kind.ZERO
                elif image is None and _is_zero_of_no_number(before, given):
                    kind = Kind.ZERO_OF_NO_NUMBER
                else:
                    kind = Kind.LOST if other is None else Kind.NEW
                found.add(kind, Part.GRADIENT, name)
                continue
            slack = _slack(before.label) if self.compiled else None
            if slack is None and before.label.endswith("scaled"):
                # What large terms leave of each other hangs on their order; all else is compared
                # sharply with the other inputs.
                slack = 0.0
            found.diff(image, other, Part.GRADIENT, name, tight=self._tight, slack=slack)

    def _effects(self, before: Shot, after: Shot, found: Findings) -> None:
        first, second = (
            without_deprecations(before.effects, after.effects, graphs=self.graphs),
            after.effects,
        )
        pairs = [
            (what, getattr(first, what), getattr(second, what))
            for what in ("stdout", "logs", "warnings", "events", "files")
        ]
        # Warnings of the backward pass are torch's own, and differ where it is compiled.
        pairs += [
            (f"later {what}", getattr(before.later, what), getattr(after.later, what))
            for what in ("stdout", "logs")
        ]
        for what, old, new in pairs:
            if self.mode == "inductor":
                old, new = (_DIGITS.sub("#", repr(value)) for value in (old, new))
            if old != new:
                found.add(Kind.DIFFERS, Part.EFFECT, what, _short(repr(old)), _short(repr(new)))
        if first.order != second.order and self.mode != "inductor":
            found.add(Kind.DIFFERS, Part.EFFECT, "order")
        # torch.fx prints a traceback where a branch of torch.cond raises.
        quiet = before.error is None and before.kind not in _INVENTED
        if first.stderr != second.stderr and quiet and not self.compiled:
            old, new = repr(_short(first.stderr)), repr(_short(second.stderr))
            found.add(Kind.DIFFERS, Part.EFFECT, "stderr", old, new)


def _is_the_same_error(before: Shot, after: Shot) -> bool:
    """Whether Dynamo wrapped the original's error in one of its own.

    It does that with what it meets while tracing (torch.cond traces even in eager): the same error
    is then named in the message.
    """
    assert before.error is not None and after.error is not None
    if _DYNAMO not in after.error_types:
        return False
    name = before.error[0].rsplit(".", 1)[-1]
    if name in after.error[1] or before.error[1] in after.error[1]:
        return True
    return before.error[0] in after.error_types and before.kind == "shape"


def without_deprecations(before: Effects, after: Effects, *, graphs: bool = False) -> Effects:
    """The effects without what torch itself said of a deprecated use that the patch has mended.
    Of ``graphs``, what NumPy says of numbers is left out as well: torch computes them there.

    Nobody's program says that: it comes from torch's C++ code, which tells where, or from a
    function of torch that is marked as deprecated and names itself first.
    """
    still = {text for _, text in after.warnings}
    gone = {
        number
        for number, (category, text) in enumerate(before.warnings)
        if text not in still
        and (_is_of_torch(category, text) or (graphs and _is_of_numpy(category, text)))
    }
    if not gone:
        return before
    places = [place for place, (kind, _) in enumerate(before.order) if kind == "warning"]
    left_out = {places[number] for number in gone if number < len(places)}
    return dataclasses.replace(
        before,
        warnings=[said for number, said in enumerate(before.warnings) if number not in gone],
        order=[step for place, step in enumerate(before.order) if place not in left_out],
    )


#: What torch says of a variance of nothing, which is NaN with and without that, and of what it
#: does not check in the making of a sparse tensor.
_OF_ITSELF = re.compile(r"degrees of freedom is <= 0|Sparse invariant checks are implicitly")


def _is_of_torch(category: str, text: str) -> bool:
    """Whether torch says of a function of its own that it is deprecated, or of what it does."""
    if "(Triggered internally at" in text:
        return "deprecated" in text or _OF_ITSELF.search(text) is not None
    named = re.match(r"`torch\.[\w.]+(?:\(.*?\))?` is deprecated", text)
    return category in ("FutureWarning", "DeprecationWarning") and named is not None


_OF_NUMPY = re.compile(
    r"(?:divide by zero|invalid value|overflow|underflow) encountered in \w+"
    r"|Mean of empty slice\.?|Degrees of freedom <= 0 for slice\.?"
)


def _is_of_numpy(category: str, text: str) -> bool:
    """Whether NumPy warns of what its arithmetic met."""
    return category == "RuntimeWarning" and _OF_NUMPY.fullmatch(text) is not None


def _looked_for(name: str, shot: Shot) -> bool:
    """Whether the shot would hold this piece of state if it were there."""
    bare = name.removeprefix("len(").rstrip(")")
    if not bare.startswith(_ELSEWHERE):
        return True
    return any(bare == place or bare.startswith(f"{place}.") for place in shot.places)


def _same_number(old: Any, new: Any) -> bool:
    """Whether a numpy scalar in a piece of state became the equal Python number."""
    numpy = isinstance(old, tuple) and len(old) == 3 and old[0] == "npscalar"
    return numpy and isinstance(new, int | float) and bool(old[2] == new)


def error_text(error: tuple[str, str]) -> str:
    return f"{error[0].rsplit('.', 1)[-1]}({_short(error[1])})"


#: What torch says of an operator's place: a path of the machine, in the middle of its reason.
_PLACE = re.compile(r" \(with implementation in <module .*?>\)")


def _short(text: str) -> str:
    line = _PLACE.sub("", " ".join(text.split()))
    return line if len(line) <= 160 else line[:157] + "..."


#: Variations with float32 beside float64.
_MIXED = frozenset({"mixed", "mixed-rest"})


class Findings:
    """Findings of one comparison, before the inputs are noted on them.

    ``mixed`` says that float32 went in beside float64: what comes out as float64 may have the
    precision of the former.  ``label`` is that of the inputs, ``sensitivity`` as in `Comparison`;
    ``moves`` is as there, by part (outputs, with them state; gradients): where last digits move
    float32 that far, finite numbers say no more, or nothing at all.  ``graphs`` have arrays of no
    dimensions where NumPy has numbers: Dynamo's translation of NumPy gives these, with the patch
    and without it.
    """

    def __init__(
        self,
        label: str = "",
        sensitivity: float = 0.0,
        *,
        moves: Mapping[Part, float] = types.MappingProxyType({}),
        graphs: bool = False,
    ) -> None:
        self.findings: list[Finding] = []
        self._graphs = graphs
        self._moves = moves
        self._sensitivity = sensitivity
        self._mixed = label.partition("+")[0] in _MIXED
        self._varied = label not in ("", "base", "again")

    def add(
        self,
        kind: Kind,
        part: Part,
        place: str = "",
        before: str = "",
        after: str = "",
        detail: str = "",
    ) -> None:
        self.findings.append(Finding(kind, part, place, before=before, after=after, detail=detail))

    def diff(
        self,
        old: Any,
        new: Any,
        part: Part,
        place: str,
        *,
        strict: bool = False,
        tight: bool | None,
        slack: float | None = None,
    ) -> None:
        """Add what differs between two images.

        ``strict`` looks at identity and strides, too; ``slack`` says that terms were added up in
        another order, which shows in small results, too.
        """
        if len(self.findings) >= _MANY:
            return
        old, new = self._numpy_alike(old, new)
        if isinstance(old, Whose) or isinstance(new, Whose):
            if strict and old != new:
                was, now = getattr(old, "name", ""), getattr(new, "name", "")
                self.add(Kind.ALIAS, part, place, was or "a new object", now or "a new one")
        elif isinstance(old, TensorImage) and isinstance(new, TensorImage):
            self._tensors(old, new, part, place, strict=strict, tight=tight, slack=slack)
        elif isinstance(old, FunctionImage) and isinstance(new, FunctionImage):
            same = self._same_function(old, new, part, place)
            held = (old.held, new.held) if same else ((), ())
            self.diff(held[0], held[1], part, place, strict=strict, tight=tight, slack=slack)
        elif type(old) is not type(new):
            self.add(Kind.TYPE, part, place, _kind(old), _kind(new))
        elif isinstance(old, list | tuple):
            if len(old) != len(new):
                self.add(Kind.TYPE, part, place, f"{len(old)} items", str(len(new)))
                return
            for index, (a, b) in enumerate(zip(old, new, strict=True)):
                inner = f"{place}[{index}]" if len(old) > 1 else place
                self.diff(a, b, part, inner, strict=strict, tight=tight, slack=slack)
        elif isinstance(old, float):
            if not _floats_close(old, new):
                self.add(Kind.VALUE, part, place, repr(old), repr(new))
        elif hasattr(old, "dtype"):
            same = old.shape == new.shape and old.tobytes() == new.tobytes()
            if not same and not _arrays_close(old, new):
                self.add(Kind.VALUE, part, place, detail="array values")
        elif old != new:
            self.add(Kind.TYPE, part, place, _short(repr(old)), _short(repr(new)))

    def _numpy_alike(self, old: Any, new: Any) -> tuple[Any, Any]:
        """Of graphs, a NumPy number as the array of no dimensions that came in its place."""
        import numpy as np

        match old, new:
            case ("npscalar", kind, value), ("ndarray", other, np.ndarray() as array) if (
                self._graphs and kind == other and array.shape == ()
            ):
                return ("ndarray", kind, np.asarray(value, dtype=array.dtype)), new
        return old, new

    def _same_function(
        self, old: FunctionImage, new: FunctionImage, part: Part, place: str
    ) -> bool:
        if old.name != new.name:
            self.add(Kind.TYPE, part, place, old.name, new.name)
        elif old.text != new.text:
            self.add(Kind.TEXT, part, place)
        return (old.name, old.text) == (new.name, new.text)

    def _tensors(
        self,
        old: TensorImage,
        new: TensorImage,
        part: Part,
        place: str,
        *,
        strict: bool,
        tight: bool | None,
        slack: float | None,
    ) -> None:
        for what, kind in _ASPECTS:
            before, after = getattr(old, what), getattr(new, what)
            if before != after:
                self.add(kind, part, place, str(before), str(after))
                if kind is not Kind.DIFFERENTIABLE:
                    return
        summed = part is Part.GRADIENT
        apart = _values_apart(
            old, new, tight, slack, self._sensitivity, mixed=self._mixed, summed=summed
        )
        of = Part.GRADIENT if part is Part.GRADIENT else Part.OUTPUT
        if apart is not None and _is_moved(old.data, new.data, self._moves.get(of, 0.0)):
            return
        if apart is not None:
            # Inductor takes some operations apart, and its parts give 0 for a place that is NaN.
            for_nan = (
                self._varied
                and tight is None
                and _apart_for_nan(old, new, slack, self._sensitivity)
            )
            self.add(Kind.VALUE_FOR_NAN if for_nan else Kind.VALUE, part, place, detail=apart)
            return
        if tight and old.notes != new.notes:
            was, now = (_short(str(dict(notes))) for notes in (old.notes, new.notes))
            self.add(Kind.TYPE, part, f"{place}.__dict__", was, now)
        if old.same != new.same or old.shares != new.shares:
            was = old.same or (old.shares and f"a view of {old.shares}") or "a tensor of its own"
            now = new.same or (new.shares and f"a view of {new.shares}") or "a copy"
            self.add(Kind.ALIAS, part, place, was, now)
        if strict and old.strides is not None and new.strides is not None:
            mine = [s for s, n in zip(old.strides, old.shape, strict=True) if n > 1]
            theirs = [s for s, n in zip(new.strides, new.shape, strict=True) if n > 1]
            if mine != theirs and old.data.numel():
                self.add(Kind.STRIDES, part, place, str(old.strides), str(new.strides))


def _is_zero_of_no_number(before: Shot, given: TensorImage) -> bool:
    """Whether a gradient is zero times NaN or infinity, and the original's parameters got such."""
    if not holds_no_numbers(before.label) or not given.data.is_floating_point():
        return False
    finite = given.data[torch.isfinite(given.data)]
    return not finite.any() and any(
        image is not None
        and not name.startswith("in")
        and not bool(torch.isfinite(image.data).all())
        for name, image in before.grads.items()
    )


def sensitivity(base: Shot, nudged: Shot, part: Part | None = None) -> float:
    """How far the results of inputs that differ in their last digits are apart, for their size.

    PyTorch's own benchmarks ask how far float32 is from float64 for the same reason.  Where calls
    change state, two of them differ anyway, and nothing is known: 0.  ``part`` looks at outputs or
    gradients alone.
    """
    if base.error or nudged.error or base.changed or nudged.changed:
        return 0.0
    apart = [
        float((one - other).abs().max() / one.abs().max().clamp(min=1e-30))
        for old, new in zip(_images(base, part), _images(nudged, part), strict=False)
        if old.shape == new.shape and old.dtype == new.dtype == "torch.float32"
        for one, other in [(torch.nan_to_num(old.data), torch.nan_to_num(new.data))]
        if one.numel()
    ]
    return max(apart, default=0.0)


def moves(before: Mapping[str, Shot]) -> dict[tuple[str, Part], float]:
    """How far the last digits of what went in move the parts of an original's shots, by label."""
    pairs = [(before.get(of_nudged(it.label)), before.get(it.label)) for it in CHAOS]
    return {
        (plain.label, part): sensitivity(plain, nudged, part)
        for plain, nudged in pairs
        if plain is not None and nudged is not None
        for part in (Part.OUTPUT, Part.GRADIENT)
    }


def _is_moved(old: torch.Tensor, new: torch.Tensor, by: float) -> bool:
    """Whether values of float32 are no further apart than last digits move them (three times as
    far: other digits may move them further), or those move them anywhere.
    """
    if not by or not _are_alike(old, new):
        return False
    if by > _MOST_SENSITIVE:
        return True
    finite = torch.isfinite(old)
    one, other = old[finite], new[finite]
    if not one.numel():
        return True
    return bool((one - other).abs().max() <= 3 * by * one.abs().max())


def _are_alike(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether values of float32 are finite at the same places."""
    floats = old.dtype == new.dtype == torch.float32 and old.shape == new.shape
    return floats and torch.equal(torch.isfinite(old), torch.isfinite(new))


def _images(shot: Shot, part: Part | None = None) -> list[TensorImage]:
    """The tensors that a call gave, and the gradients that it led to."""
    found: list[TensorImage] = []
    waiting = [] if part is Part.GRADIENT else [shot.result]
    if part is not Part.OUTPUT:
        waiting += [image for _, image in sorted(shot.grads.items())]
    while waiting:
        value = waiting.pop()
        if isinstance(value, TensorImage):
            found.append(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return found


def _floats_close(old: float, new: float) -> bool:
    a, b = torch.tensor(old, dtype=torch.float64), torch.tensor(new, dtype=torch.float64)
    return torch.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True)


#: However much an original makes of rounding, what differs by more is no rounding.
_MOST_SENSITIVE = 1e-2


def _slack(label: str) -> float:
    """What a compiled gradient may be off by in any element; the eager one was compared sharply.

    Where scaled inputs saturate a sigmoid, one rounding of its value is a gradient from nothing.
    """
    return 1e-3 if label.endswith("scaled") else 0.0


def _close_for_their_size(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether tensors that are close in absolute terms are so for their largest value, too."""
    if not old.is_floating_point() or not old.numel():
        return True
    finite = torch.isfinite(old) & torch.isfinite(new)
    a, b = old[finite].double(), new[finite].double()
    if not a.numel():
        return True
    # One hundredth is little more than one step of bfloat16, which has eight bits.
    part = 4 * torch.finfo(old.dtype).eps if old.dtype == torch.bfloat16 else 1e-2
    return bool((a - b).abs().max() <= part * torch.maximum(a.abs().max(), b.abs().max()))


def _arrays_close(old: Any, new: Any) -> bool:
    import numpy as np

    if old.shape != new.shape or old.dtype != new.dtype or old.dtype.kind not in "fc":
        return False
    return bool(np.allclose(old, new, rtol=1e-5, atol=1e-8, equal_nan=True))


def _kind(value: Any) -> str:
    if isinstance(value, TensorImage):
        return f"tensor{list(value.shape)}"
    if isinstance(value, tuple) and len(value) > 1 and isinstance(value[0], str):
        return f"{value[0]} {value[1]}"
    return type(value).__name__


def _apart_for_nan(
    old: TensorImage, new: TensorImage, slack: float | None, sensitivity: float
) -> bool:
    """Whether values of an inductor run are apart only where the original's are NaN."""
    if not old.data.is_floating_point() or old.data.shape != new.data.shape:
        return False
    nan = torch.isnan(old.data)
    pair = [dataclasses.replace(it, data=it.data.masked_fill(nan, 0)) for it in (old, new)]
    return _values_apart(pair[0], pair[1], None, slack, sensitivity, mixed=False) is None


def _is_half(data: torch.Tensor) -> bool:
    return data.dtype in (torch.bfloat16, torch.float16)


def _values_apart(
    old: TensorImage,
    new: TensorImage,
    tight: bool | None,
    slack: float | None,
    sensitivity: float = 0.0,
    *,
    mixed: bool,
    summed: bool = False,
) -> str | None:
    """How far the values are apart, in torch's words; None where they agree.

    A gradient is ``summed`` of what all uses of a value give, in an order that hangs on the uses.
    """
    rough: dict[str, Any] = {}
    moves = min(10 * sensitivity, _MOST_SENSITIVE)  # other inputs may move it further
    if tight is None and old.data.is_floating_point():
        finite = old.data[torch.isfinite(old.data)]
        largest = float(finite.abs().max()) if finite.numel() else 0.0
        part = 1e-3 if old.data.dtype in (torch.float32, torch.float64) else 3e-2
        part = max(part, moves)
        rough = {"rtol": part, "atol": max(slack or 0.0, part * max(largest, 1e-3))}
    elif slack is not None and old.data.dtype == torch.float32 and old.data.numel():
        largest = float(torch.nan_to_num(old.data, 0.0, 0.0, 0.0).abs().max())
        rough = {"rtol": 1.3e-6, "atol": max(slack, 1e-5, 2e-5 * largest, moves * largest)}
    elif (tight or slack is not None) and _is_half(old.data) and old.data.numel():
        largest = float(torch.nan_to_num(old.data, 0.0, 0.0, 0.0).abs().max())
        # Sums in another order round a few times more or less: that is counted in the dtype's own
        # steps, so that float16 is not forgiven what bfloat16 cannot help.
        step = torch.finfo(old.data.dtype).eps
        # A step of the largest is one sum; a gradient has been through one for each use.  Of what
        # runs eagerly, small values are looked at below once more.
        own = 4 if tight else 2
        rough = {"rtol": own * step, "atol": (4 if summed else 1) * step * largest}
    elif tight and old.data.dtype == torch.float64:
        # A number that was rounded to float32 on its way shows in the ninth place, unless float32
        # went in: a mask computes the same elements at other places, with another last bit or two.
        step = 2 * torch.finfo(torch.float32).eps
        rough = {"rtol": step, "atol": step} if mixed else {"rtol": 1e-10, "atol": 1e-12}
    try:
        torch.testing.assert_close(new.data, old.data, equal_nan=True, check_stride=False, **rough)
    except AssertionError as error:
        lines = [
            line for line in str(error).splitlines() if "Mismatch" in line or "Greatest" in line
        ]
        return "; ".join(lines) or _short(str(error))
    except (RuntimeError, TypeError):
        if not torch.equal(old.data, new.data):
            return ""
    if tight and not _close_for_their_size(old.data, new.data):
        return "they are small, and far apart for their size"
    return None
