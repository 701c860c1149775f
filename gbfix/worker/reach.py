"""Where the state hangs that a call can see: its object, closures, globals, classes, functions.

Follows the project's own functions by the names in their code, so that a counter in a helper's
module is seen as well as one in the region's own.  Nothing of the program is called.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from gbfix.worker.values import Project

#: Functions followed at most: a large library copied into the project has thousands.
_MAX_FUNCTIONS = 400


_WEAK = (weakref.WeakKeyDictionary, weakref.WeakSet, weakref.WeakValueDictionary)


class Roots:
    """Named places.  `values` reads them anew: a counter in a global is replaced, not changed."""

    def __init__(self, places: Mapping[str, Callable[[], object]]) -> None:
        self._places = places

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._places)

    def values(self) -> dict[str, object]:
        result: dict[str, object] = {}
        for name, read in self._places.items():
            # What is gone (a deleted global, an emptied cell) shows by its absence.
            with contextlib.suppress(KeyError, ValueError, AttributeError):
                result[name] = read()
        return result


def roots(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], project: Project) -> Roots:
    """Places that a call of ``target`` can reach, by stable names.

    ``self``, ``args.0``, ``closure.x``, ``global.x`` (of the region's own module) come first; then
    ``global.helpers.x``, ``class.Net.x``, ``function.f.x`` and ``default.f.x``.
    """
    walk = _Walk(project)
    function = walk.start(target)
    for name, value in (*enumerate(args), *kwargs.items()):
        if not isinstance(value, torch.Tensor):
            group = "args" if isinstance(name, int) else "kwargs"
            walk.found[f"{group}.{name}"] = functools.partial(_same, value)
    walk.classes(list(Roots(walk.found).values().values()))
    walk.follow(function)
    return Roots(walk.found)


def _same(value: object) -> object:
    return value


def _wrapped(space: Mapping[str, Any], name: str) -> object:
    """The module that a function of this name stands for now."""
    value = space[name]
    return getattr(value, "__wrapped__", value)


class _Walk:
    def __init__(self, project: Project) -> None:
        self._project = project
        self.found: dict[str, Callable[[], object]] = {}
        self._seen: set[int] = set()
        self._queue: collections.deque[types.FunctionType] = collections.deque()
        self._own: Mapping[str, Any] = {}

    def start(self, target: Any) -> Any:
        """Note the object that the call belongs to, and what its function closes over."""
        if isinstance(target, torch.nn.Module):
            self.found["self"] = functools.partial(_same, target)
            function: Any = vars(target).get("forward", type(target).forward)
            function = getattr(function, "__func__", function)
        else:
            owner = getattr(target, "__self__", None)
            if owner is not None and not isinstance(owner, types.ModuleType):
                self.found["self"] = functools.partial(_same, owner)
            function = getattr(target, "__func__", target)
        # A decorated function is a wrapper: the user's own function lies beneath.
        while hasattr(function, "__wrapped__"):
            self._enqueue(function)
            function = function.__wrapped__
        for name, read in _cells(function):
            self.found[f"closure.{name}"] = read
        self._own = getattr(function, "__globals__", {})
        for name, value in list(self._own.items()):
            if not name.startswith("__") and not isinstance(value, types.ModuleType | type):
                plain = isinstance(value, types.FunctionType)
                if plain and isinstance(getattr(value, "__wrapped__", None), torch.nn.Module):
                    # ``torch._dynamo.config.patch(...)(torch.compile(model))``
                    self.found[f"global.{name}"] = functools.partial(_wrapped, self._own, name)
                    continue
                if callable(value) and not isinstance(value, torch.nn.Module | torch.Tensor):
                    continue
                self.found[f"global.{name}"] = functools.partial(self._own.__getitem__, name)
        return function

    def classes(self, values: list[object]) -> None:
        """Follow the classes of objects (and of the modules below them)."""
        for value in values:
            parts = value.modules() if isinstance(value, torch.nn.Module) else (value,)
            for part in parts:
                self._class(type(part))

    def follow(self, function: Any) -> None:
        self._enqueue(function)
        while self._queue and len(self._seen) < 4 * _MAX_FUNCTIONS:
            self._function(self._queue.popleft())

    def _enqueue(self, function: Any) -> None:
        if isinstance(function, types.FunctionType) and id(function) not in self._seen:
            self._seen.add(id(function))
            if self._project.owns(function.__code__.co_filename):
                self._queue.append(function)

    def _function(self, function: types.FunctionType) -> None:
        name = function.__qualname__
        for key, read in _cells(function):
            self._value(f"closure.{name}.{key}", read)
        for key, value in list(vars(function).items()):
            if key == "__wrapped__":
                self._enqueue(value)
            elif not key.startswith(("_torch", "_gbfix", "__")):
                place = functools.partial(vars(function).__getitem__, key)
                self._value(f"function.{name}.{key}", place)
        defaults: dict[object, Any] = dict(enumerate(function.__defaults__ or ()))
        defaults.update(function.__kwdefaults__ or {})
        for position, value in defaults.items():
            if not isinstance(value, torch.Tensor | str | bytes | int | float | None):
                self._value(f"default.{name}.{position}", functools.partial(_same, value))
        space = function.__globals__
        own = "" if space is self._own else f"{space.get('__name__', '')}."
        for key, read in _used(function.__code__, space, self._project):
            self._value(f"global.{own}{key}", read)

    def _value(self, name: str, read: Callable[[], object]) -> None:
        try:
            value = read()
        except (KeyError, ValueError):
            self.found.setdefault(name, read)
            return
        if isinstance(value, types.FunctionType):
            self._enqueue(value)
        elif isinstance(value, types.MethodType):
            self._enqueue(value.__func__)
        elif isinstance(value, type):
            self._class(value)
        elif not isinstance(value, types.ModuleType | types.BuiltinFunctionType):
            self.found.setdefault(name, read)
            self._class(type(value))

    def _class(self, kind: type) -> None:
        for base in kind.__mro__:
            if id(base) in self._seen or not self._owned(base):
                continue
            self._seen.add(id(base))
            for key, value in list(vars(base).items()):
                function = getattr(value, "__func__", getattr(value, "fget", value))
                if isinstance(function, types.FunctionType):
                    self._enqueue(function)
                elif isinstance(value, _WEAK):
                    continue  # what hangs there hangs somewhere else, too
                elif not key.startswith("__") and not hasattr(type(value), "__get__"):
                    place = functools.partial(vars(base).__getitem__, key)
                    self._value(f"class.{base.__qualname__}.{key}", place)

    def _owned(self, kind: type) -> bool:
        module = sys.modules.get(kind.__module__)
        path = getattr(module, "__file__", None)
        return bool(path) and self._project.owns(str(path))


def _cells(function: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        yield name, functools.partial(getattr, cell, "cell_contents")


def _used(
    code: types.CodeType, space: Mapping[str, Any], project: Project
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Globals that a function names, and attributes of the project's modules that it names."""
    names = _names(code)
    for name in names:
        if name not in space:
            if not hasattr(builtins, name):
                # Most are attributes; a global that the call is to make may be among them.
                yield name, functools.partial(space.__getitem__, name)
            continue
        value = space[name]
        if not isinstance(value, types.ModuleType):
            yield name, functools.partial(space.__getitem__, name)
        elif project.owns(getattr(value, "__file__", None) or ""):
            for part in names:
                if part in vars(value):
                    read = functools.partial(vars(value).__getitem__, part)
                    yield f"{value.__name__}.{part}", read


def _names(code: types.CodeType) -> dict[str, None]:
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(_names(constant))
    return names
