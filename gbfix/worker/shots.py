"""Takes a picture of a call: outputs, what it changed, gradients, effects, for each variation."""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import functools
import hashlib
import inspect
import os
import random
import signal
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gbfix.evidence import Kinds
from gbfix.worker import reach, settings
from gbfix.worker.beginning import Beginning
from gbfix.worker.effects import EffectRecorder, Effects
from gbfix.worker.gradients_before import GradientsBefore, images_of_gradients
from gbfix.worker.perturb import TWICE, Inputs, Variation, of_nudged
from gbfix.worker.rebind import rebind
from gbfix.worker.values import (
    Imager,
    Project,
    changed,
    is_plain,
    is_uninitialized,
    objects_in,
    qualified,
    state_image,
    tensors_in,
    version,
)

_SEED = 2147
#: Tensors of state larger than this (elements, all together) are imaged only when changed.
_STATE_BUDGET = 4_000_000


@dataclasses.dataclass
class Shot:
    """What one variation of a call gave.  Holds no live object of the user's program."""

    label: str
    kind: str
    result: Any = None
    error: tuple[str, str] | None = None
    error_types: tuple[str, ...] = ()
    inputs: Any = None
    tensors: dict[str, Any] = dataclasses.field(default_factory=dict)
    state: dict[str, Any] = dataclasses.field(default_factory=dict)
    grads: dict[str, Any] = dataclasses.field(default_factory=dict)
    grad_error: tuple[str, str] | None = None
    rng: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Names of state that the call changed: what it leaves alone may differ from run to run (an
    #: identifier made up at import) and says nothing about the call.
    changed: frozenset[str] = frozenset()
    #: Whether the call left another tensor than it found (in a list, say): that is not put back.
    moved: bool = False
    #: Where state was looked for (see `gbfix.worker.reach`).
    places: frozenset[str] = frozenset()
    #: Names of state that was there before the call and is not any more.
    gone: tuple[str, ...] = ()
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    #: What an exception of the program's own carries besides its message.
    error_parts: Any = None
    seconds: float = 0.0
    effects: Effects = dataclasses.field(default_factory=Effects)
    #: What hooks and the like did while gradients were computed.
    later: Effects = dataclasses.field(default_factory=Effects)


@dataclasses.dataclass
class Call:
    """A recorded call: what was compiled, its arguments, and the state that it can reach."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    project: Project

    def roots(self) -> reach.Roots:
        """Where state that the call can see hangs (see `gbfix.worker.reach`)."""
        return reach.roots(self.target, self.args, self.kwargs, self.project)


def random_state() -> dict[str, str]:
    """Digests of the random streams that a program can draw from."""
    name, keys, *rest = np.random.get_state(legacy=True)
    parts: dict[str, bytes] = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "random": repr(random.getstate()).encode(),
        "numpy": np.asarray(keys).tobytes() + repr((name, rest)).encode(),
    }
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for number, state in enumerate(torch.cuda.get_rng_state_all()):
            parts[f"cuda:{number}"] = state.numpy().tobytes()
    return {name: hashlib.sha256(data).hexdigest()[:16] for name, data in parts.items()}


@functools.cache
def _has_device() -> bool:
    return bool(torch.accelerator.is_available())


def seed_streams(seed: int = _SEED) -> None:
    """Put every random stream to the same start: a call must draw the same in each process."""
    if _has_device():
        torch.manual_seed(seed)
    else:
        # The same, without a note (and a stack) for each device that may yet come.
        torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _forget_warnings() -> None:
    """Let a warning that is shown once a place be shown again: each shot counts its own.

    Python drops what it remembers when the filters change (`warnings._filters_mutated`); which
    warnings were shown before a fork would else depend on how the program got there.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("default")


_RAISING = frozenset({dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"]})


class TookTooLong(BaseException):
    """A call on varied inputs does not end in reasonable time (a loop over a huge number, say).

    Not an `Exception`: the program's own handlers must not swallow it.
    """


def finished(result: Any) -> Any:
    """What a call gives; the coroutine of an async function is equal to nothing.

    What it ends with is not seen: a process that drives a compiled coroutine by itself may crash
    (torch 2.13).  Two runs differ, so that all that is told of one is unsafe.
    """
    if not inspect.iscoroutine(result):
        return result
    result.close()
    return f"a coroutine whose end is not seen ({os.getpid()}, {time.monotonic_ns()})"


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` in the block after so many seconds; 0 sets no limit."""
    if not seconds:
        yield
        return

    def ring(signum: int, frame: object) -> None:
        raise TookTooLong(f"{seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


class Camera:
    """Runs the variations of one call, one after the other, in the calling process.

    Tensors of state are put back between variations; Python state is not (but after a call that
    raised an error of the program's own), and goes through the same sequence in every process;
    variations of first calls start where the sequence does.
    """

    def __init__(self, call: Call, effects: EffectRecorder) -> None:
        self._call = call
        self._effects = effects
        roots = call.roots()
        self._places = roots
        self._state: dict[str, torch.Tensor] = {}
        for name, root in roots.values().items():
            for path, value in tensors_in(root, name):
                self._state.setdefault(path, value)
        self._saved = {
            name: (value, value.detach().clone(), version(value))
            for name, value in self._state.items()
            if not value.is_meta and not is_uninitialized(value)
        }
        self._leaves = {name for name, (value, *_) in self._saved.items() if value.is_leaf}
        self._bound = self._bindings()
        self._beginning = Beginning(self._roots)
        self._small = sum(value.numel() for value, *_ in self._saved.values()) <= _STATE_BUDGET
        self._inputs = Inputs(call.target, call.args, call.kwargs)
        given = tensors_in((call.args, call.kwargs), "in", modules=False)
        self._grads = GradientsBefore({**self._state, **dict(given)})
        self._inputs.has_more = bool(self._grads)

    @property
    def has_moved(self) -> bool:
        """Whether a further call is no first call: the calls before have left Python state."""
        return self._beginning.has_changed()

    def state(self) -> dict[str, Any]:
        """Python state as it is now."""
        return state_image(self._roots)

    @property
    def _roots(self) -> dict[str, object]:
        return self._places.values()

    def shoot(
        self,
        invoke: Callable[..., Any],
        variations: Sequence[Variation],
        *,
        fatal: Callable[[BaseException], bool] = lambda error: False,
        seconds: float = 0.0,
    ) -> Iterator[Shot]:
        """One shot a variation that applies; exceptions for which ``fatal`` holds come through.

        Raises `TookTooLong` where a call takes longer than ``seconds`` (0: no limit).
        """
        for variation in variations:
            given = self._inputs.vary(variation)
            if given is None:
                continue
            if variation.kind == "grad" and torch.is_inference_mode_enabled():
                continue
            if variation.kind in ("settled", "instance") and not self._has_numbers(variation.kind):
                continue
            if variation.kind in ("first", "none"):
                self._beginning.restore()
            undo = self._vary_state(variation)
            if undo is None:
                continue
            held, before = self._held(), Beginning(self._roots)
            # A program that runs under no_grad is not the last word: others may call the function.
            asked = variation.kind == "grad" and not torch.is_grad_enabled()
            mode = torch.enable_grad() if asked else contextlib.nullcontext()
            try:
                with mode, time_limit(seconds):
                    shot = self._one(invoke, variation, *given, fatal)
            finally:
                undo()
                self._restore()
            if shot.error_parts is not None:
                # A graph that raises sets nothing, and later calls are to start alike.
                before.restore()
            shot.moved = not _is_same_list(self._held(), held)
            yield shot

    def walk(
        self, invoke: Callable[..., Any], variation: Variation
    ) -> tuple[bool, Exception | None]:
        """Make the call without a shot: whether the variation applies, and what it raised."""
        given = self._inputs.vary(variation)
        if given is None:
            return False, None
        seed_streams()
        named = dict(tensors_in(given, "in", modules=False))
        self._grads.give({**self._state, **named}, variation)
        try:
            finished(invoke(*given[0], **given[1]))
        except Exception as error:
            return True, error
        finally:
            self._restore()
        return True, None

    def _one(
        self,
        invoke: Callable[..., Any],
        variation: Variation,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fatal: Callable[[BaseException], bool],
    ) -> Shot:
        shot = Shot(variation.label, variation.kind)
        # Other inputs, other draws: what a random number decides goes both ways in some of them.
        seed_streams(_SEED + zlib.crc32(of_nudged(variation.label).encode()) % 1_000_003)
        _forget_warnings()
        given = dict(tensors_in((args, kwargs), "in", modules=False))
        known = {**self._state, **given}
        found = self._grads.give(known, variation)
        result: Any = None
        looks = variation.label in ("base", "again")
        objects = objects_in({"in": (args, kwargs), **self._roots})
        had = state_image(self._roots)
        mode = torch.is_grad_enabled()
        with self._effects.watch(files=looks) as effects:
            started = time.monotonic()
            try:
                result = finished(invoke(*args, **kwargs))
            except (Exception, SystemExit) as error:  # a call may leave the program, too
                if fatal(error):
                    raise
                shot.error = (qualified(type(error)), str(error))
                shot.error_types = tuple(qualified(kind) for kind in type(error).__mro__)
                shot.error_parts = self._error_parts(error)
            shot.seconds = time.monotonic() - started
        shot.rng = random_state()
        shot.settings = settings.read()
        if shot.error is not None:
            torch.set_grad_enabled(mode)  # a graph that raises leaves it: that is said once
        shot.effects = effects
        if shot.error is None:
            imager = Imager(known, objects)
            shot.result = imager.image(result, "out")
        shot.inputs = Imager().image((args, kwargs), "in")
        shot.tensors = self._changed_state()
        # The call itself may have run a backward pass.
        shot.tensors |= images_of_gradients(known, found)
        shot.state = state_image(self._roots)
        shot.gone = tuple(sorted(had.keys() - shot.state.keys()))
        shot.changed = changed(had, shot.state)
        shot.places = self._places.names
        if shot.error is None:
            self._gradients(shot, result, known, fatal)
        return shot

    def kinds(self) -> Kinds:
        """Which kind of call this is (see `gbfix.evidence.Kinds`)."""
        given = [value for _, value in tensors_in((self._call.args, self._call.kwargs), "in")]
        modules = [root for root in self._roots.values() if isinstance(root, torch.nn.Module)]
        asks = any(value.requires_grad for value in (*given, *self._state.values()))
        return Kinds(
            gradients=torch.is_grad_enabled() and asks,
            modes=frozenset(part.training for root in modules for part in root.modules()),
            one_row=self._inputs.rows == 1,
            integers=any(not v.is_floating_point() and not v.is_complex() for v in given),
        )

    def _has_numbers(self, kind: str) -> bool:
        own = bool(self._numbers())
        return own if kind == "instance" else own or self._inputs.has_numbers

    def _numbers(self) -> list[tuple[dict[str, Any], str, float]]:
        """Floats that objects of the project's classes hold: where they are, and what."""
        found = []
        seen: set[int] = set()
        for root in self._roots.values():
            for part in root.modules() if isinstance(root, torch.nn.Module) else (root,):
                home = sys.modules.get(type(part).__module__)
                path = getattr(home, "__file__", None) or ""
                if id(part) in seen or not self._call.project.owns(path):
                    continue
                if isinstance(part, torch.jit.ScriptModule):
                    continue  # its code has its constants in it, and never reads them again
                seen.add(id(part))
                held = getattr(part, "__dict__", None)
                if type(held) is dict:
                    found += [(held, k, v) for k, v in held.items() if _is_float(v)]
        return found

    def _bindings(self) -> list[tuple[dict[str, Any], str, torch.Tensor]]:
        """Tensors that attributes of the state are bound to: where, and which."""
        found = []
        for root in self._roots.values():
            for part in root.modules() if isinstance(root, torch.nn.Module) else (root,):
                own = getattr(part, "__dict__", None)
                places = [own, *(own.get(it) for it in ("_buffers", "_parameters"))] if own else []
                for held in places:
                    if type(held) is dict:
                        items = list(held.items())
                        found += [(held, k, v) for k, v in items if isinstance(v, torch.Tensor)]
        return found

    def _error_parts(self, error: BaseException) -> Any:
        """Arguments and attributes of an exception that the program's own code raised."""
        if isinstance(error, SystemExit):
            return Imager().image((error.args, {}, None), "error")
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        if place is None or not self._call.project.owns(place.tb_frame.f_code.co_filename):
            return None
        # An error out of C code has the same innermost frame: there, a call is what failed.
        if place.tb_frame.f_code.co_code[place.tb_lasti] not in _RAISING:
            return None
        cause = error.__cause__
        return Imager().image(
            (error.args, vars(error), None if cause is None else qualified(type(cause))), "error"
        )

    def _gradients(
        self,
        shot: Shot,
        result: Any,
        known: Mapping[str, torch.Tensor],
        fatal: Callable[[BaseException], bool],
    ) -> None:
        # One tensor in two places of the result counts twice, as two that are equal do.
        outputs = {
            path: value
            for path, value in tensors_in(result, "out", modules=False, repeated=True)
            if value.requires_grad and (value.is_floating_point() or value.is_complex())
        }
        if not outputs:
            return
        seeds = [_cotangent(path, value) for path, value in outputs.items()]
        try:
            with self._effects.watch(files=False) as shot.later:
                if shot.label == TWICE.label:
                    _differentiate_twice(list(outputs.values()), seeds, known)
                else:
                    # The graph is not kept: inductor may then reuse its buffers, as for the user.
                    torch.autograd.backward(list(outputs.values()), seeds)
        except Exception as error:
            if fatal(error):
                raise
            shot.grad_error = (qualified(type(error)), str(error))
            return
        imager = Imager()
        for name, value in known.items():
            if value.requires_grad and value.is_leaf:
                grad = value.grad
                shot.grads[name] = None if grad is None else imager.image(grad)

    def _changed_state(self) -> dict[str, Any]:
        """Images of state tensors after the call; large ones only where they were written."""
        imager = Imager()
        result: dict[str, Any] = {}
        for name, root in self._roots.items():
            for path, value in tensors_in(root, name):
                saved = self._saved.get(path)
                same = saved is not None and saved[0] is value and not self._small
                if same and saved is not None and version(value) == saved[2] != -1:
                    continue
                if path not in result and not value.is_meta:
                    result[path] = imager.image(value)
        return result

    def _vary_state(self, variation: Variation) -> Callable[[], None] | None:
        """Apply a variation of state; what undoes it, or None where it means nothing."""
        if variation.kind in ("state", "nudged"):
            return self._change_floats(variation)
        if variation.kind == "mode":
            modules = [root for root in self._roots.values() if isinstance(root, torch.nn.Module)]
            if not modules:
                return None
            was = [(part, part.training) for module in modules for part in module.modules()]
            for part, training in was:
                part.training = not training

            def undo() -> None:
                for part, training in was:
                    part.training = training

            return undo
        if variation.kind == "instance":
            numbers = self._numbers()
            for held, name, number in numbers:
                held[name] = number * 1.5 + 0.25

            def restore() -> None:
                for held, name, number in numbers:
                    held[name] = number

            return restore
        if variation.kind == "dtype" and variation.label in _PRECISIONS:
            return self._converted(_PRECISIONS[variation.label])
        if variation.kind == "rebound":
            name = variation.label.partition(" ")[2]
            back = rebind(name, self._call.target, self._roots, self._call.project)
            # Where a patch reads it no more, it may not be found either: that shows in the values.
            return back or (lambda: None)
        return lambda: None

    def _change_floats(self, variation: Variation) -> Callable[[], None] | None:
        """Change all tensors of the state; `_restore` puts them back."""
        # One that two names lead to is changed once.
        floats = {
            id(value): value
            for value in self._state.values()
            if is_plain(value) and value.is_floating_point() and value.numel()
        }
        if not floats and variation.kind == "state":
            return None
        factor = {"state-negated": -1.0, "state-scaled": 300.0, "state-scaled-nudged": 300.0}.get(
            variation.label, 1.0
        )
        last = torch.Generator().manual_seed(_SEED) if variation.kind == "nudged" else None
        with torch.no_grad():
            for value in floats.values():
                _quietly(value.data.mul_, factor)
                if last is not None:
                    by = 1 + 1e-6 * torch.randn(value.shape, generator=last)
                    _quietly(value.data.mul_, by.to(value))
        return lambda: None

    def _converted(self, dtype: torch.dtype) -> Callable[[], None]:
        """Another precision converts a module's parameters and buffers with its inputs."""
        before = [
            (value, value.data)
            for value in {id(value): value for value in self._state.values()}.values()
            if is_plain(value) and value.dtype == torch.float32
        ]
        for value, data in before:
            value.data = data.to(dtype)

        def undo() -> None:
            for value, data in before:
                value.data = data

        return undo

    def _held(self) -> list[tuple[str, torch.Tensor, int]]:
        """Which tensors stand where, and what was written to those that are not put back."""
        saved = {id(value) for value, *_ in self._saved.values()}
        return [
            (path, value, -1 if id(value) in saved else version(value))
            for name, root in self._roots.items()
            for path, value in tensors_in(root, name)
            if not is_uninitialized(value)
        ]

    def _restore(self) -> None:
        self._grads.put_back()
        for held, key, tensor in self._bound:
            if held.get(key) is not tensor:
                held[key] = tensor  # the call gave the attribute another tensor
        with torch.no_grad():
            for name, (value, copy, _) in self._saved.items():
                if is_plain(value) and value.grad_fn is not None and name in self._leaves:
                    # A call wrote into it what has a gradient; later ones are to start alike.
                    _quietly(torch.Tensor.detach_, value)
                if is_plain(value) and value.shape == copy.shape:
                    inference = value.is_inference()
                    with torch.inference_mode() if inference else contextlib.nullcontext():
                        _quietly(value.data.copy_, copy)
                self._saved[name] = (value, copy, version(value))


_PRECISIONS = {"double": torch.float64, "half": torch.bfloat16}


def _is_same_list(
    now: list[tuple[str, torch.Tensor, int]], before: list[tuple[str, torch.Tensor, int]]
) -> bool:
    """Whether the same tensors stand in the same places."""
    return len(now) == len(before) and all(
        path == name and value is old and written == mark
        for (path, value, written), (name, old, mark) in zip(now, before, strict=True)
    )


def _is_float(value: object) -> bool:
    """Whether it is a number with a fraction, of Python's or numpy's: one may replace the other."""
    kind = type(value)
    return kind is float or (kind.__module__ == "numpy" and kind.__name__ in _NUMPY_FLOATS)


_NUMPY_FLOATS = frozenset({"float16", "float32", "float64"})


def _cotangent(path: str, value: torch.Tensor) -> torch.Tensor:
    """What an output's gradient is taken with: by its path, whatever other outputs there are."""
    if not is_plain(value):
        return torch.ones_like(value)
    generator = torch.Generator().manual_seed(zlib.crc32(path.encode()))
    return torch.randn(value.shape, generator=generator).to(value.device, value.dtype)


def _differentiate_twice(
    outputs: list[torch.Tensor], seeds: list[torch.Tensor], known: Mapping[str, torch.Tensor]
) -> None:
    """As a gradient penalty does: leave in ``.grad`` what the gradients' squares depend on."""
    leaves = [value for value in known.values() if value.requires_grad and value.is_leaf]
    first = torch.autograd.grad(outputs, leaves, seeds, create_graph=True, allow_unused=True)
    penalty = [grad.square().sum() for grad in first if grad is not None and grad.requires_grad]
    if penalty:
        torch.autograd.backward(torch.stack([one.double() for one in penalty]).sum())


def _quietly(action: Callable[[Any], object], operand: Any) -> None:
    try:
        action(operand)
    except RuntimeError:
        # Expanded tensors cannot be written in place; they were not written by the call either.
        return
