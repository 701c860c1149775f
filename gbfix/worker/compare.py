"""Says where two shots of the same call differ, in words that fit into a report.

A *difference* fails the rung.  A *caveat* is a measured change that can matter to a caller but not
to the values (a result that no longer is the input itself, a zero gradient instead of none): the
patch passes, and must be called unsafe.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch

from gbfix.worker import settings
from gbfix.worker.effects import Effects
from gbfix.worker.shots import Shot
from gbfix.worker.values import TensorImage, Whose

_MAX = 6
#: Numbers in a text: their last places are inductor's own.
_DIGITS = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]\d+)?|\s+")
_DYNAMO = "torch._dynamo.exc.TorchDynamoException"
#: How a graph refuses a size that it was not made for.
_OF_SIZES = "Runtime assertion failed for expression"
#: Variations that change what kind of inputs these are, not only their values.
_INVENTED = frozenset(
    {"shape", "dtype", "layout", "numbers", "defaults", "alias", "flags", "plain"}
)
#: Where the compiler's own refusal, loud and clear, is no fault of a patch.
_REFUSABLE = {"layout": "strides", "dtype": "dtypes"}
_NO_NUMBERS = frozenset({"nan", "inf", "-inf"})
#: State that is found by following names in code, which a patch may move to other functions.
_ELSEWHERE = ("global.", "class.", "function.", "default.", "closure.")


@dataclasses.dataclass
class Comparison:
    """``mode`` is ``eager`` for patched eager against original eager, else the backend's name."""

    mode: str
    differences: list[str] = dataclasses.field(default_factory=list)
    caveats: list[str] = dataclasses.field(default_factory=list)
    #: What is worth saying beside a passed rung.
    notes: list[str] = dataclasses.field(default_factory=list)
    count: int = 0

    @property
    def compiled(self) -> bool:
        return self.mode != "eager"

    @property
    def _tight(self) -> bool | None:
        """True for eager against eager: the same operations, so that tiny values must agree.

        None for inductor, which fuses and reorders floating-point operations.
        """
        return None if self.mode == "inductor" else not self.compiled

    def add(self, before: Shot, after: Shot) -> None:
        """Compare two shots with the same label; findings carry the label."""
        self.count += 1
        found: list[str] = []
        caveats: list[str] = []
        self._errors(before, after, found, caveats)
        if before.error is None and after.error is None:
            _diff(
                before.result,
                after.result,
                "output",
                found,
                caveats,
                strict=not self.compiled,
                tight=self._tight,
            )
        both = before.error is not None and after.error is not None
        if both and before.kind in _INVENTED:
            # How far each one came before it raised is no contract either.
            pass
        elif (before.error is None) == (after.error is None):
            _diff(
                before.inputs,
                after.inputs,
                "input after the call",
                found,
                [],
                strict=False,
                tight=self._tight,
            )
            self._state(before, after, found, caveats)
            self._gradients(before, after, found, caveats)
            self._effects(before, after, found)
            for name, digest in before.rng.items():
                if after.rng.get(name) != digest:
                    found.append(f"{name} random stream afterwards differs")
            self._settings(before, after, found)
        if before.kind == "grad":
            # The recorded run asked for no gradient here: worth a word, not a refusal.
            if before.error is not None or before.grad_error is not None:
                return
            caveats += [f"if inputs required gradients: {text}" for text in found]
            found = []
        if before.label in _NO_NUMBERS and not self.compiled:
            # 0 * NaN here and there: it matters to whoever trains on such inputs.
            odd = [text for text in found if text.startswith("gradient of ")]
            caveats += [f"{text} (inputs: {before.label})" for text in odd]
            found = [text for text in found if text not in odd]
        self.differences += [f"{text} (inputs: {before.label})" for text in found]
        self.caveats += [text for text in caveats if text not in self.caveats]

    def _settings(self, before: Shot, after: Shot, found: list[str]) -> None:
        for name in settings.COMPILED if self.compiled else before.settings:
            old, new = before.settings.get(name), after.settings.get(name)
            if name == "environment" and self.mode == "inductor":
                continue  # its C++ build sets variables of its own
            if old != new:
                found.append(f"{name} afterwards differs")

    def _errors(self, before: Shot, after: Shot, found: list[str], caveats: list[str]) -> None:
        if before.error is None and after.error is None:
            return
        invented = before.kind in _INVENTED
        if before.error is None:
            assert after.error is not None
            # Shapes, dtypes and numbers that nobody ever gave: the patch is narrower than the
            # original, which is worth knowing, but it does not give a wrong result.
            text = f"raises {_error(after.error)}, the original does not"
            if before.kind in _REFUSABLE and _DYNAMO in after.error_types:
                # torch.cond wants equal strides and dtypes of its branches, and says so.
                self.notes.append(f"refuses inputs with other {_REFUSABLE[before.kind]}")
            elif invented:
                caveats.append(f"{text} (inputs: {before.label})")
            else:
                found.append(text)
        elif invented and before.error_parts is None:
            # The original does not take these inputs, and it was not its own code that said so.
            return
        elif after.error is None:
            found.append(f"does not raise {_error(before.error)} as the original does")
        elif before.error[0] != after.error[0]:
            name = before.error[0].rsplit(".", 1)[-1]
            # Dynamo wraps what it meets while tracing (torch.cond traces even in eager): the same
            # error is then named in the message.
            traced = _DYNAMO in after.error_types
            if traced and (name in after.error[1] or before.error[1] in after.error[1]):
                return
            if traced and before.error[0] in after.error_types and before.kind == "shape":
                return
            text = f"raises {_error(after.error)} instead of {_error(before.error)}"
            if before.label != "base" and _OF_SIZES in after.error[1]:
                # No result in either: the graph asks for what it took for granted of a size.
                caveats.append(f"{text} (inputs: {before.label})")
            else:
                found.append(text)
        elif before.error[1] != after.error[1] and not self.compiled:
            caveats.append(
                f"the message of {before.error[0]} changes from {_short(before.error[1])!r} "
                f"to {_short(after.error[1])!r}"
            )
        elif before.error_parts is not None and not self.compiled:
            parts: list[str] = []
            if after.error_parts is not None:
                _diff(
                    before.error_parts,
                    after.error_parts,
                    "exception",
                    parts,
                    [],
                    strict=False,
                    tight=self._tight,
                )
            caveats += parts[:1]

    def _state(self, before: Shot, after: Shot, found: list[str], caveats: list[str]) -> None:
        for name, image in before.tensors.items():
            if name in after.tensors:
                _diff(
                    image,
                    after.tensors[name],
                    f"{name} afterwards",
                    found,
                    [],
                    strict=False,
                    tight=self._tight,
                )
            elif not name.startswith(_ELSEWHERE):
                found.append(f"{name} is missing afterwards")
        for name in sorted(before.changed | after.changed):
            if name not in before.state:
                # New in the patched program: what it keeps for itself is no difference yet.
                continue
            value = before.state[name]
            if name in after.state:
                now = after.state[name]
                if _same_number(value, now):
                    caveats.append(f"{name} was a number of numpy's and is Python's now")
                    continue
                _diff(value, now, f"{name} afterwards", found, [], strict=False, tight=self._tight)
            elif _looked_for(name, after):
                found.append(f"{name} is missing afterwards")
        for name in before.gone:
            if name in after.state:
                found.append(f"{name} is still there afterwards")

    def _gradients(self, before: Shot, after: Shot, found: list[str], caveats: list[str]) -> None:
        if before.grad_error is not None or after.grad_error is not None:
            if (before.grad_error is None) != (after.grad_error is None):
                error = after.grad_error or before.grad_error
                assert error is not None
                who = "patched" if after.grad_error else "original"
                found.append(f"backward raises {_error(error)} in the {who} program only")
            return
        for name, image in before.grads.items():
            other = after.grads.get(name)
            if image is None and other is None:
                continue
            if image is None or other is None:
                given = image if other is None else other
                zero = bool((given.data == 0).all())
                if zero and before.asked:
                    continue
                if zero:
                    now = (
                        "no gradient instead of a zero one"
                        if other is None
                        else ("a zero gradient instead of none")
                    )
                    caveats.append(f"{name} gets {now}")
                else:
                    found.append(f"gradient of {name} is {'lost' if other is None else 'new'}")
                continue
            what = f"gradient of {name}"
            if isinstance(image, TensorImage) and isinstance(other, TensorImage):
                _diff_tensors(
                    image, other, what, found, [], strict=False, tight=self._tight,
                    slack=_slack(before.label) if self.compiled else None,
                )  # fmt: skip
            else:
                _diff(image, other, what, found, [], strict=False, tight=self._tight)

    def _effects(self, before: Shot, after: Shot, found: list[str]) -> None:
        first, second = without_deprecations(before.effects, after.effects), after.effects
        for what in ("stdout", "logs", "warnings", "events", "files"):
            old, new = getattr(first, what), getattr(second, what)
            if self.mode == "inductor":
                old, new = (_DIGITS.sub("#", repr(value)) for value in (old, new))
            if old != new:
                found.append(f"{what} differ: {_short(repr(old))} became {_short(repr(new))}")
        # Warnings of the backward pass are torch's own, and differ where it is compiled.
        for what in ("stdout", "logs"):
            old, new = getattr(before.later, what), getattr(after.later, what)
            if self.mode == "inductor":
                old, new = (_DIGITS.sub("#", repr(value)) for value in (old, new))
            if old != new:
                text = f"{_short(repr(old))} became {_short(repr(new))}"
                found.append(f"{what} of the backward pass differ: {text}")
        if first.order != second.order and self.mode != "inductor":
            found.append("events happen in another order: output, log records, warnings, files")
        # torch.fx prints a traceback where a branch of torch.cond raises.
        quiet = before.error is None and before.kind not in _INVENTED
        if first.stderr != second.stderr and quiet and not self.compiled:
            found.append(
                f"stderr differs: {_short(first.stderr)!r} became {_short(second.stderr)!r}"
            )


def without_deprecations(before: Effects, after: Effects) -> Effects:
    """The effects without what torch itself said of a deprecated use that the patch has mended.

    Nobody's program says that: it comes from torch's C++ code, which tells where.
    """
    gone = {
        number
        for number, (_, text) in enumerate(before.warnings)
        if "deprecated" in text
        and "(Triggered internally at" in text
        and text not in {other for _, other in after.warnings}
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


def _error(error: tuple[str, str]) -> str:
    return f"{error[0].rsplit('.', 1)[-1]}({_short(error[1])})"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:97] + "..."


def _diff(
    old: Any,
    new: Any,
    path: str,
    found: list[str],
    caveats: list[str],
    *,
    strict: bool,
    tight: bool | None,
) -> None:
    """Append what differs between two images; at most a handful."""
    if len(found) >= _MAX:
        return
    if isinstance(old, Whose) or isinstance(new, Whose):
        if strict and old != new:
            was, now = getattr(old, "name", ""), getattr(new, "name", "")
            caveats.append(f"{path} was {was or 'a new object'} and is now {now or 'a new one'}")
    elif isinstance(old, TensorImage) and isinstance(new, TensorImage):
        _diff_tensors(old, new, path, found, caveats, strict=strict, tight=tight)
    elif type(old) is not type(new):
        found.append(f"{path}: {_kind(old)} became {_kind(new)}")
    elif isinstance(old, list | tuple):
        if len(old) != len(new):
            found.append(f"{path}: {len(old)} items became {len(new)}")
            return
        for index, (a, b) in enumerate(zip(old, new, strict=True)):
            inner = f"{path}[{index}]" if len(old) > 1 else path
            _diff(a, b, inner, found, caveats, strict=strict, tight=tight)
    elif isinstance(old, float):
        if not torch.allclose(
            torch.tensor(old, dtype=torch.float64),
            torch.tensor(new, dtype=torch.float64),
            rtol=1e-6,
            atol=1e-9,
            equal_nan=True,
        ):
            found.append(f"{path}: {old!r} became {new!r}")
    elif hasattr(old, "dtype"):
        same = old.shape == new.shape and old.tobytes() == new.tobytes()
        if not same and not _arrays_close(old, new):
            found.append(f"{path}: array values differ")
    elif old != new:
        found.append(f"{path}: {_short(repr(old))} became {_short(repr(new))}")


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
    return bool((a - b).abs().max() <= 1e-2 * torch.maximum(a.abs().max(), b.abs().max()))


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


def _diff_tensors(
    old: TensorImage,
    new: TensorImage,
    path: str,
    found: list[str],
    caveats: list[str],
    *,
    strict: bool,
    tight: bool | None,
    slack: float | None = None,
) -> None:
    """``slack``: terms were added up in another order, which shows in small results, too."""
    for what in ("shape", "dtype", "device", "kind", "requires_grad"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after:
            found.append(f"{path}: {what} {before} became {after}")
            return
    rough: dict[str, Any] = {}
    if tight is None and old.data.is_floating_point():
        finite = old.data[torch.isfinite(old.data)]
        largest = float(finite.abs().max()) if finite.numel() else 0.0
        part = 1e-3 if old.data.dtype in (torch.float32, torch.float64) else 3e-2
        rough = {"rtol": part, "atol": max(slack or 0.0, part * max(largest, 1e-3))}
    elif slack is not None and old.data.dtype == torch.float32 and old.data.numel():
        largest = float(torch.nan_to_num(old.data, 0.0, 0.0, 0.0).abs().max())
        rough = {"rtol": 1.3e-6, "atol": max(slack, 1e-5, 2e-5 * largest)}
    try:
        torch.testing.assert_close(new.data, old.data, equal_nan=True, check_stride=False, **rough)
    except AssertionError as error:
        lines = [
            line for line in str(error).splitlines() if "Mismatch" in line or "Greatest" in line
        ]
        found.append(f"{path}: values differ ({'; '.join(lines) or _short(str(error))})")
        return
    except (RuntimeError, TypeError):
        if not torch.equal(old.data, new.data):
            found.append(f"{path}: values differ")
            return
    if tight and not _close_for_their_size(old.data, new.data):
        found.append(f"{path}: values differ (they are small, and far apart for their size)")
        return
    if old.same != new.same or old.shares != new.shares:
        before = old.same or (old.shares and f"a view of {old.shares}") or "a tensor of its own"
        after = new.same or (new.shares and f"a view of {new.shares}") or "a copy"
        caveats.append(f"{path} was {before} and is now {after}")
    if strict and old.strides is not None and new.strides is not None:
        mine = [s for s, n in zip(old.strides, old.shape, strict=True) if n > 1]
        theirs = [s for s, n in zip(new.strides, new.shape, strict=True) if n > 1]
        if mine != theirs and old.data.numel():
            caveats.append(f"{path}: strides {old.strides} became {new.strides}")
