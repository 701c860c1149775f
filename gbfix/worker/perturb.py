"""Inputs that the user did not give: deterministic variations of a recorded call.

A variation works on a private copy of the call's tensors (aliasing and strides kept), so that the
same label gives the same inputs in every process.
"""

from __future__ import annotations

import collections
import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gbfix.worker.values import storage_token

Change = Callable[[torch.Tensor, torch.Generator], None]


@dataclasses.dataclass(frozen=True)
class Variation:
    """One way to vary a call.

    ``values`` variations keep shapes, dtypes and flags: a compiled region must serve them without
    compiling again.  ``grad`` ones make floating-point inputs require gradients.
    """

    label: str
    change: Change | None = None
    kind: str = "values"


def _redraw(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.dtype == torch.bool:
        value.copy_(torch.rand(value.shape, generator=generator) < 0.5)
    elif value.is_floating_point() or value.is_complex():
        finite = value[torch.isfinite(value)] if value.numel() else value
        spread = float(finite.abs().float().mean()) if finite.numel() else 1.0
        value.copy_(torch.randn(value.shape, generator=generator) * (spread or 1.0) * 1.3)
    elif value.numel():
        # Integers are often indices: stay within what was seen.
        low, high = int(value.min()), int(value.max())
        value.copy_(torch.randint(low, high + 1, value.shape, generator=generator))


def _negate(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.dtype == torch.bool:
        value.logical_not_()
    elif value.is_floating_point() or value.is_complex():
        value.neg_()
    else:
        value.copy_(value.flatten().flip(0).reshape(value.shape))


def _scale(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.is_floating_point() or value.is_complex():
        value.mul_(1000.0)


def _shrink(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.is_floating_point() or value.is_complex():
        value.mul_(-0.001)


def _zero(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        value.zero_()
    elif value.numel():
        value.fill_(int(value.min()))


def _one(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        value.fill_(1)
    elif value.numel():
        value.fill_(int(value.max()))


def _seed(number: float, whole: bool = False) -> Change:
    def change(value: torch.Tensor, generator: torch.Generator) -> None:
        if value.is_floating_point() and value.numel():
            if whole:
                value.fill_(number)
            else:
                flat = value.reshape(-1)
                flat[int(torch.randint(flat.numel(), (1,), generator=generator))] = number
                if flat.data_ptr() != value.data_ptr():
                    value.copy_(flat.reshape(value.shape))

    return change


VALUES = (
    Variation("base"),
    Variation("again"),
    Variation("redrawn", _redraw),
    Variation("negated", _negate),
    Variation("redrawn-2", _redraw),
    Variation("scaled", _scale),
    Variation("small", _shrink),
    Variation("zeros", _zero),
    Variation("ones", _one),
    Variation("nan", _seed(float("nan"))),
    Variation("inf", _seed(float("inf"))),
    Variation("-inf", _seed(float("-inf"))),
    Variation("state-negated", None, "state"),
    Variation("state-scaled", None, "state"),
)
GRADS = (
    Variation("grad", None, "grad"),
    Variation("grad-negated", _negate, "grad"),
    Variation("grad-zeros", _zero, "grad"),
)
SHAPES = (
    Variation("grown", None, "shape"),
    Variation("empty", None, "shape"),
)
FLAGS = (
    Variation("flags", None, "flags"),
    Variation("mode", None, "mode"),
    Variation("double", None, "dtype"),
)


def variations(mode: str) -> tuple[Variation, ...]:
    """Those that a run in this mode goes through (``eager`` sees all of them)."""
    if mode == "eager":
        return VALUES + GRADS + SHAPES + FLAGS
    if mode == "fullgraph-eager":
        return VALUES + GRADS + SHAPES[:1]
    return VALUES + GRADS


#: Built-in iterators that can be rebuilt from their parts without consuming them.
_ITERATORS = frozenset(
    {
        "dict_itemiterator",
        "dict_keyiterator",
        "dict_valueiterator",
        "enumerate",
        "filter",
        "list_iterator",
        "list_reverseiterator",
        "map",
        "range_iterator",
        "tuple_iterator",
        "zip",
    }
)


class Inputs:
    """The arguments of a recorded call, copied afresh for each variation."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._args = tuple(args)
        self._kwargs = dict(kwargs)

    def vary(self, variation: Variation) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Fresh arguments; None where the variation means nothing for them."""
        # zlib.crc32, not hash(): string hashes differ between interpreters.
        generator = torch.Generator().manual_seed(zlib.crc32(variation.label.encode()))
        copier = _Copier(variation, generator, self._rows())
        args = copier.copy(self._args)
        kwargs = copier.copy(self._kwargs)
        if variation.kind in ("flags", "dtype", "shape", "grad") and not copier.changed:
            return None
        if variation.kind == "values" and variation.change is not None and not copier.tensors:
            return None
        return args, kwargs

    def _rows(self) -> int:
        """The most common leading size of the tensors: what looks like the batch."""
        sizes = [t.shape[0] for t in _tensors((self._args, self._kwargs)) if t.dim() > 0]
        return collections.Counter(sizes).most_common(1)[0][0] if sizes else -1


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


class _Copier:
    """Copies tensors inside containers; other objects are passed on as they are."""

    def __init__(self, variation: Variation, generator: torch.Generator, rows: int) -> None:
        self._variation = variation
        self._generator = generator
        self._rows = rows
        self._memo: dict[int, Any] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._varied: set[int] = set()
        self._keep: list[Any] = []
        self.changed = False
        self.tensors = 0

    def copy(self, value: Any) -> Any:
        if id(value) in self._memo:
            return self._memo[id(value)]
        new = self._copy(value)
        self._memo[id(value)] = new
        self._keep.append(value)
        return new

    def _copy(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, bool) and self._variation.kind == "flags":
            self.changed = True
            return not value
        kind = type(value)
        if kind in (list, set):
            return kind(self.copy(item) for item in value)
        if isinstance(value, tuple):
            items = [self.copy(item) for item in value]
            return kind(*items) if hasattr(value, "_fields") else kind(items)
        if isinstance(value, dict):
            # Subclasses (ModelOutput and kin) carry attributes as well: copy those, then fill.
            if kind is dict or kind is collections.OrderedDict:
                return kind((key, self.copy(item)) for key, item in value.items())
            return self._object(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(value)
        if type(value).__module__ == "builtins" and type(value).__name__ in _ITERATORS:
            return self._iterator(value)
        return value

    def _iterator(self, value: Any) -> Any:
        # These pickle as (function, (parts,), position): rebuilt from copies of their parts, the
        # original stays unconsumed.
        function, arguments, *state = value.__reduce__()
        new = function(*(self.copy(part) for part in arguments))
        if state and state[0] is not None:
            new.__setstate__(state[0])
        return new

    def _object(self, value: Any) -> Any:
        import copy

        try:
            new = copy.copy(value)
            for key, item in list(vars(value).items()):
                object.__setattr__(new, key, self.copy(item))
            if isinstance(value, dict):
                for key, item in list(value.items()):
                    dict.__setitem__(new, key, self.copy(item))
        except Exception:
            return value
        return new

    def _tensor(self, value: torch.Tensor) -> torch.Tensor:
        self.tensors += 1
        kind = self._variation.kind
        with torch.no_grad():
            new = self._fresh(value)
            if kind == "shape" and value.dim() > 0 and value.shape[0] == self._rows:
                new = self._resized(new)
            if kind == "dtype" and new.dtype == torch.float32:
                new = new.double()
                self.changed = True
            self._change(new)
        needs = value.requires_grad
        if kind == "grad" and (new.is_floating_point() or new.is_complex()):
            self.changed = self.changed or not needs
            needs = True
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(new, requires_grad=needs)
        if needs:
            new.requires_grad_()
        return new

    def _fresh(self, value: torch.Tensor) -> torch.Tensor:
        """A copy with the same strides that shares memory exactly where the original does."""
        plain = value.detach()
        if type(plain) is not torch.Tensor or plain.layout is not torch.strided:
            return plain.clone()
        token = storage_token(plain)
        if not token or plain.is_conj() or plain.is_neg():
            return plain.clone()
        storage = self._storages.get(token)
        if storage is None:
            source: Any = plain.untyped_storage()
            storage = source.clone()
            self._storages[token] = storage
            self._keep.append(plain)
        new = torch.empty(0, dtype=plain.dtype, device=plain.device)
        return new.set_(storage, plain.storage_offset(), plain.shape, plain.stride())

    def _resized(self, value: torch.Tensor) -> torch.Tensor:
        self.changed = True
        if self._variation.label == "empty":
            return value[:0].clone()
        if value.shape[0] == 0:
            return value
        return torch.cat([value, value[:1]])

    def _change(self, value: torch.Tensor) -> None:
        if self._variation.change is None:
            return
        token = storage_token(value)
        if token and token in self._varied:
            return
        self._varied.add(token)
        try:
            self._variation.change(value, self._generator)
        except (RuntimeError, NotImplementedError, TypeError, IndexError):
            # Expanded or exotic tensors cannot be written: they keep their recorded values.
            return
