"""Which calls of a region are alike: those that Dynamo is likely to trace the same way.

A program's first calls rarely show all that it does: the fourth may come with another flag, the
last one in evaluation mode.  Dynamo takes what is not a tensor for constants of the trace, so that
such a call is another trace, with breaks of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import torch

#: How deep containers are looked into, and how many of their items count.
_DEPTH = 3
_ITEMS = 6
_TEXT = 40


def kind_of(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    """A value that is equal for calls which are alike.

    Tensors count by dtype, rank, place, whether they learn, and which of their sizes are 0 or 1;
    numbers by their sign alone,
    as counters would make every call another one; flags, texts and None as they are.
    """
    owner = getattr(target, "__self__", target)
    return (
        torch.is_grad_enabled(),
        tuple(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")),
        _about(owner, 1) if isinstance(owner, torch.nn.Module) else None,
        _parts_of(owner) if isinstance(owner, torch.nn.Module) else None,
        tuple(_about(item, _DEPTH) for item in args),
        tuple((name, _about(kwargs[name], _DEPTH)) for name in sorted(kwargs)),
    )


def shapes_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    """The sizes of the tensors that a call brings: others may be another trace."""
    named = (kwargs[name] for name in sorted(kwargs))
    return tuple(_shapes_in(item, _DEPTH) for item in (*args, *named))


def _shapes_in(value: object, depth: int) -> object:
    if isinstance(value, torch.Tensor):
        return _sizes(value)
    if depth and isinstance(value, list | tuple):
        return tuple(_shapes_in(item, depth - 1) for item in value[:_ITEMS])
    if depth and isinstance(value, dict):
        return tuple(_shapes_in(item, depth - 1) for item in list(value.values())[:_ITEMS])
    return None


def _about(value: object, depth: int) -> object:
    sort = type(value).__qualname__
    if isinstance(value, torch.Tensor):
        sizes = tuple(min(size, 2) for size in _sizes(value))
        place = value.device.type, str(value.layout)
        return sort, value.dtype, sizes, place, value.requires_grad
    if value is None or isinstance(value, bool | enum.Enum):
        return sort, repr(value)
    if isinstance(value, int | float):
        return sort, (value > 0) - (value < 0)
    if isinstance(value, str):
        return sort, value[:_TEXT]
    if depth == 0:
        return sort
    if isinstance(value, list | tuple):
        items = (_about(item, depth - 1) for item in value[:_ITEMS])
        return sort, min(len(value), _ITEMS), tuple(items)
    if isinstance(value, dict):
        pairs = list(value.items())[:_ITEMS]
        return sort, tuple((str(key)[:_TEXT], _about(item, depth - 1)) for key, item in pairs)
    return sort, _flags(value)


def _parts_of(module: torch.nn.Module) -> tuple[object, ...]:
    """Which parts of a module are in train mode, and which of its parameters learn."""
    modes = tuple(part.training for part in module.modules())
    return modes, tuple(parameter.requires_grad for parameter in module.parameters())


def _sizes(value: torch.Tensor) -> tuple[int, ...]:
    # A nested tensor has sizes of its own kind.
    return () if value.is_nested else tuple(value.shape)


def _flags(value: object) -> tuple[object, ...]:
    """Flags and texts that an object holds itself; of its numbers, nothing."""
    held = getattr(value, "__dict__", None)
    if not isinstance(held, dict):
        return ()
    return tuple(
        (name, item[:_TEXT] if isinstance(item, str) else item)
        for name, item in list(held.items())
        if isinstance(name, str) and (item is None or isinstance(item, bool | str))
    )
