"""Gives globals and attributes other values for the time of one call.

What a patch reads once (at import, in ``__init__``, as a number written out), the program may well
change between its calls, although this run of it did not.
"""

from __future__ import annotations

import collections
import copy
import enum
import functools
import logging
import sys
import types
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any

import numpy as np
import torch

from gbfix.worker.values import Project, children

_MOST_OBJECTS = 20_000
_MOST_ITEMS = 64
_OTHER_DTYPE = {torch.float64: torch.float32, torch.int64: torch.int32}
_SAME = object()


def rebind(
    name: str, function: Any, roots: Mapping[str, object], project: Project
) -> Callable[[], None] | None:
    """Give all that is reachable and called ``name`` another value; what undoes it.

    None where there is nothing of that name, or nothing that could be another one.
    """
    undo: list[Callable[[], object]] = []
    done: set[int] = set()
    for read, write in (
        *_cells(name, function),
        *_globals(name, project),
        *_attributes(name, roots),
    ):
        old = read()
        if id(old) in done:
            continue  # the same list under another name
        restore = _in_place(old)
        if restore is not None:
            done.add(id(old))
            undo.append(restore)
            continue
        new = _other(old)
        if new is _SAME:
            continue
        try:
            write(new)
        except Exception:
            continue  # a property, slots: not for a program to set either
        undo.append(_writes(write, old))
    if not undo:
        return None

    def back() -> None:
        for action in reversed(undo):
            action()

    return back


def _writes(write: Callable[[Any], object], value: object) -> Callable[[], object]:
    return lambda: write(value)


# -- where it stands -----------------------------------------------------------------------------

_Place = tuple[Callable[[], Any], Callable[[Any], object]]


def _cells(name: str, function: Any) -> Iterator[_Place]:
    if isinstance(function, torch.nn.Module):
        function = vars(function).get("forward", type(function).forward)
    function = getattr(function, "__func__", function)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for key, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        if key == name:
            contents = "cell_contents"
            yield (
                functools.partial(getattr, cell, contents),
                functools.partial(setattr, cell, contents),
            )


def _globals(name: str, project: Project) -> Iterator[_Place]:
    """The name in each of the project's modules, and in the classes there."""
    seen: set[int] = set()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not project.owns(path) or id(module.__dict__) in seen:
            continue
        space = module.__dict__
        seen.add(id(space))
        if name in space:
            yield (
                functools.partial(space.__getitem__, name),
                functools.partial(space.__setitem__, name),
            )
        for kind in list(space.values()):
            if not isinstance(kind, type) or id(kind) in seen or not _owned(kind, project):
                continue
            seen.add(id(kind))
            if name in vars(kind) and not hasattr(vars(kind)[name], "__get__"):
                yield (
                    functools.partial(vars(kind).__getitem__, name),
                    functools.partial(setattr, kind, name),
                )


def _attributes(name: str, roots: Mapping[str, object]) -> Iterator[_Place]:
    """The attribute in objects that the roots lead to."""
    seen: set[int] = set()
    queue = collections.deque(roots.values())
    while queue and len(seen) < _MOST_OBJECTS:
        item = queue.popleft()
        if id(item) in seen or isinstance(item, str | bytes | int | float | torch.Tensor):
            continue
        seen.add(id(item))
        parts = dict(children(item))
        queue.extend(parts.values())
        holds = hasattr(item, "__dict__") or hasattr(type(item), "__slots__")
        if name in parts and holds and not isinstance(item, Mapping):
            yield functools.partial(getattr, item, name), functools.partial(_set, item, name)


def _owned(kind: type, project: Project) -> bool:
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(path, str) and project.owns(path)


def _set(item: Any, name: str, value: Any) -> None:
    try:
        setattr(item, name, value)
    except AttributeError:
        # Of a frozen object, others may be made: the next one has another value.
        object.__setattr__(item, name, value)


# -- another value -------------------------------------------------------------------------------


class _Gone:
    """Stands for an object whose place something else may take: whoever reads it fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("this object is another one now")


def _in_place(value: Any, depth: int = 0) -> Callable[[], None] | None:
    """Change a list or dictionary, as a program would; what undoes it."""
    if isinstance(value, MutableMapping) and not isinstance(value, torch.nn.Module):
        keys = list(value)[:_MOST_ITEMS]
        before = dict(value)
    elif isinstance(value, MutableSequence):
        keys = list(range(min(len(value), _MOST_ITEMS)))
        before = dict(enumerate(value))
    elif isinstance(value, set):
        kept = set(value)
        value.add("gbfix")

        def put_back() -> None:
            value.clear()
            value.update(kept)

        return put_back
    else:
        return None
    undo: list[Callable[[], None]] = []
    changed: dict[Any, Any] = {}
    for key in keys:
        inner = _in_place(before[key], depth + 1) if depth < 3 else None
        if inner is not None:
            undo.append(inner)
            continue
        new = _other(before[key])
        if new is not _SAME and not isinstance(new, _Gone):
            changed[key] = new
    try:
        for key, new in changed.items():
            value[key] = new
        if not changed and not undo:
            # Nothing in it can be another: then there is more of it.
            if isinstance(value, MutableSequence):
                value.append(before[len(before) - 1] if before else 1.0)
                undo.append(lambda: value.pop() and None)
            else:
                value["gbfix"] = 1.0
                undo.append(lambda: value.pop("gbfix") and None)
    except Exception:
        return None

    def back() -> None:
        for key in changed:
            value[key] = before[key]
        for action in undo:
            action()

    return back


def _other(value: Any) -> Any:
    """Another value of the same kind; `_SAME` for functions, classes and modules."""
    match value:
        case bool():
            return not value
        case enum.Enum():
            others = [item for item in type(value) if item is not value]
            return others[0] if others else _SAME
        case None:
            return 1.5
        case int() if type(value) is int:
            return value + 1
        case float() | complex():
            return value * 1.5 + 0.25
        case str():
            return f"{value}_"
        case bytes():
            return value + b"_"
        case torch.dtype():
            return _OTHER_DTYPE.get(value, torch.float64)
        case torch.Tensor():
            return _other_tensor(value)
        case np.ndarray() | np.generic():
            return _other_array(value)
        case tuple():
            items = [_other(item) for item in value]
            items = [old if new is _SAME else new for old, new in zip(value, items, strict=True)]
            if hasattr(value, "_fields"):
                return type(value)(*items)
            return tuple(items) or (1.5,)
        case frozenset():
            return value | {"gbfix"}
    if callable(value) or isinstance(value, types.ModuleType | torch.device | logging.Logger):
        return _SAME
    return _Gone()


def _other_array(value: Any) -> Any:
    if value.dtype.kind not in "biufc":
        return _SAME
    return ~value if value.dtype.kind == "b" else (value * 2 + 1).astype(value.dtype)


def _other_tensor(value: torch.Tensor) -> Any:
    if value.layout is not torch.strided or value.is_meta or type(value) not in (
        torch.Tensor, torch.nn.Parameter
    ):  # fmt: skip
        return _SAME
    with torch.no_grad():
        new = copy.copy(value.detach().clone())
        if new.dtype == torch.bool:
            new.logical_not_()
        elif new.is_floating_point() or new.is_complex():
            new.mul_(-1.5).add_(0.25)
        else:
            new = new.flatten().flip(0).reshape(new.shape) if new.numel() > 1 else new + 1
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(new, requires_grad=value.requires_grad)
    return new.requires_grad_(value.requires_grad)
