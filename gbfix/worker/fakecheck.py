"""Holds the operators that a patch brings to what they promise.

A compiler believes a fake: where it names another size or dtype than the operator gives, inductor
reads memory of another kind, and no error says so.  It believes ``mutates_args``, too, and may read
an argument before or after an operator that writes to it unsaid.  While the patched program runs
uncompiled, each call of a ``torch.library.custom_op`` is therefore made on fake tensors as well,
and what came out, and what became of the arguments, is compared with the promise; also for sizes,
dtypes and layouts that the program never gave.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch._library.custom_ops import CustomOpDef
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from gbfix.worker.perturb import EXPANDED
from gbfix.worker.shots import Camera, TookTooLong


class BrokenPromise(RuntimeError):
    """An operator gave something else than its fake says, or changed what it does not name."""


@dataclasses.dataclass(frozen=True)
class Called:
    """One call of an operator; tensors are copies."""

    operator: CustomOpDef
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@contextlib.contextmanager
def checked() -> Iterator[dict[str, Called]]:
    """Within, calls of custom operators raise `BrokenPromise` where the fake is wrong.

    Gives the first call of each operator, by its name.
    """
    kind: Any = CustomOpDef
    plain = kind.__call__
    called: dict[str, Called] = {}

    def call(self: CustomOpDef, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return plain(self, *args, **kwargs)
        if self._qualname not in called:
            called[self._qualname] = Called(self, _copies(args), _copies(kwargs))
        promised = _promise(self, args, kwargs)
        before = _not_to_change(self, args, kwargs)
        result = plain(self, *args, **kwargs)
        for name, tensor, copy in before:
            if not _same(tensor, copy):
                raise BrokenPromise(f"{self._qualname} changes `{name}`, not among `mutates_args`")
        if isinstance(promised, NotImplementedError):
            return result  # nothing is promised, and the compiler says so with an error
        if isinstance(promised, Exception):
            raise BrokenPromise(f"the fake of {self._qualname} fails: {promised}") from promised
        difference = _difference(result, promised)
        if difference:
            raise BrokenPromise(f"{self._qualname} gives {difference}")
        return result

    kind.__call__ = call
    try:
        yield called
    finally:
        kind.__call__ = plain


def expanded(camera: Camera, target: Any) -> list[str]:
    """Which operator breaks its promise for inputs whose rows share memory; best asked last.

    Only the promise counts here: inductor refuses strides that are not as promised, with an error,
    where the original works.
    """

    def broken(error: BaseException) -> bool:
        return isinstance(error, BrokenPromise)

    try:
        with checked(), contextlib.suppress(TookTooLong):
            list(camera.shoot(target, [EXPANDED], seconds=20.0, fatal=broken))
    except BrokenPromise as error:
        return [f"{error} (inputs: {EXPANDED.label})"]
    return []


def _promise(operator: CustomOpDef, args: Any, kwargs: Any) -> Any:
    """What the fake makes of the arguments; the exception that it raised."""
    fake_mode: Any = FakeTensorMode
    mode = fake_mode(
        static_shapes=True, shape_env=cast(Any, ShapeEnv)(), allow_non_fake_inputs=True
    )

    def fake(value: Any) -> Any:
        return mode.from_tensor(value.detach()) if isinstance(value, torch.Tensor) else value

    try:
        with torch.no_grad():
            fakes = pytree.tree_map(fake, (args, kwargs))
            with mode:
                return operator._opoverload(*fakes[0], **fakes[1])
    except Exception as error:
        return error


def _copies(values: Any) -> Any:
    def copy(value: Any) -> Any:
        plain = isinstance(value, torch.Tensor) and value.layout is torch.strided
        return value.detach().clone() if plain else value

    return pytree.tree_map(copy, values)


def _not_to_change(
    operator: CustomOpDef, args: Any, kwargs: Any
) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
    """Tensors that the schema says are only read, with copies."""
    found = []
    for number, argument in enumerate(operator._opoverload._schema.arguments):
        if argument.is_write:
            continue
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        for tensor in pytree.tree_leaves(value):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
                found.append((argument.name, tensor, tensor.detach().clone()))
    return found


def _same(tensor: torch.Tensor, copy: torch.Tensor) -> bool:
    now = tensor.detach()
    if now.shape != copy.shape:
        return False
    return bool(((now == copy) | ((now != now) & (copy != copy))).all())


def _difference(result: Any, promised: Any) -> str:
    """The first tensor that is not as promised, in words; empty if there is none."""
    found, meant = pytree.tree_leaves(result), pytree.tree_leaves(promised)
    if len(found) != len(meant):
        return f"{len(found)} results, its fake {len(meant)}"
    for real, fake in zip(found, meant, strict=True):
        if not isinstance(real, torch.Tensor) or not isinstance(fake, torch.Tensor):
            continue
        if real.dtype != fake.dtype:
            return f"{real.dtype}, its fake {fake.dtype}"
        if real.device.type != fake.device.type:
            return f"a tensor on {real.device}, its fake one on {fake.device}"
        sizes = list(fake.shape)
        if real.dim() != len(sizes) or any(map(_differ, real.shape, sizes)):
            return f"a tensor of {tuple(real.shape)}, its fake one of {tuple(sizes)}"
        strides = zip(real.shape, real.stride(), fake.stride(), strict=True)
        if real.numel() and any(size > 1 and _differ(a, b) for size, a, b in strides):
            return f"strides {real.stride()}, its fake {fake.stride()}"
    return ""


def _differ(size: int, promised: int | torch.SymInt) -> bool:
    """Whether a size is another than promised; a symbol promises none."""
    return isinstance(promised, int) and size != promised
