"""Stands in for `torch.compile`: notes what the program compiles, and sees every call of it.

What a region does on a call is up to a handler (`gbfix.worker.job`): run it eagerly and record, or
compile it for real.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gbfix.worker import children, kinds
from gbfix.worker.protocol import Failed, RegionSeen
from gbfix.worker.values import Project

real_compile = torch.compile
_TORCH = os.path.dirname(os.path.realpath(torch.__file__)) + os.sep


class Region:
    """A compiled callable; all instances of a class compiled as modules share one."""

    def __init__(self, key: str, options: dict[str, Any]) -> None:
        self.key = key
        self.options = options
        #: Calls that were recorded; all that were made; and the kinds of those (see `kinds`).
        self.calls = 0
        self.made = 0
        self.kinds: set[object] = set()
        self.others = 0
        #: Sizes of the tensors of these calls.  Where the first ones were all of one size, Dynamo
        #: traces anew for the next, with sizes that vary then: that call is recorded, too.
        self.shapes: set[object] = set()
        self.resized = 0
        self.observed_only = False

    @property
    def dynamic(self) -> bool | None:
        return self.options.get("dynamic")


Handler = Callable[[Region, int, Any, tuple[Any, ...], dict[str, Any]], Any]


@contextlib.contextmanager
def _out_of_its_way(target: Any) -> Iterator[None]:
    """A module that was compiled in place is called as if it were not.

    Else whatever compiles it again would begin with a frame of ours, not with its ``forward``.
    """
    own = vars(target) if isinstance(target, torch.nn.Module) else {}
    ours = own.get("_compiled_call_impl")
    if ours is None:
        yield
        return
    own["_compiled_call_impl"] = None
    try:
        yield
    finally:
        own["_compiled_call_impl"] = ours


class Turns:
    """Lets one thread in at a time, in the order in which they came.

    Which call is the first must not depend on the luck of threads.
    """

    #: Seconds until a thread gives up: the one that is in may wait for what this one will do.
    PATIENCE = 20.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: collections.deque[threading.Event] = collections.deque()

    @contextlib.contextmanager
    def mine(self) -> Iterator[bool]:
        """Wait for one's turn; False where it did not come in time."""
        turn = threading.Event()
        with self._lock:
            self._queue.append(turn)
            if self._queue[0] is turn:
                turn.set()
        came = turn.wait(self.PATIENCE)
        try:
            yield came
        finally:
            with self._lock:
                self._queue.remove(turn)
                if self._queue:
                    self._queue[0].set()


class Recorder:
    """Replaces `torch.compile` and its kin for the rest of the process."""

    def __init__(
        self,
        project: Project,
        limit: int,
        enough: int,
        handler: Handler,
        announce: Callable[[RegionSeen | Failed], None],
        changed: Callable[[bool], None],
        others: int = 0,
    ) -> None:
        """Record the first ``limit`` calls of a region, and ``others`` later ones of new kinds.

        One more is recorded for other sizes, where all before it had the same.
        """
        self._project = project
        self._limit = limit
        self._others = others
        self._enough = enough
        self._handler = handler
        self._announce = announce
        self._changed = changed
        self.regions: dict[str, Region] = {}
        self._codes: dict[object, str] = {}
        #: Per thread: whether a call of a region is on its way there.
        self._here = threading.local()
        self._turns = Turns()
        #: Threads that a call of a region started (as DataParallel does): parts of it.
        self._started_inside: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        #: The process that records a call at this moment; in its forks, another one's number.
        self._recording = 0
        self._process = os.getpid()
        self._told: set[str] = set()
        #: Whether to name the regions that processes call which the program forked.
        self.tells_of_children = False
        #: Set inside a fork that runs an observed (uncompiled) function: inner regions compile.
        self.inner: Callable[[Any, Region], Any] | None = None

    def install(self) -> None:
        recorder = self

        @functools.wraps(real_compile)
        def compile(model: Any = None, **kwargs: Any) -> Any:
            return recorder.compile(model, kwargs, recorder._caller(model))

        def module_compile(module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            place = recorder._caller(module)
            module._compiled_call_impl = recorder.wrap(module, module._call_impl, kwargs, place)

        start = threading.Thread.start

        @functools.wraps(start)
        def start_noted(thread: threading.Thread) -> None:
            if recorder._is_inside():
                recorder._started_inside.add(thread)
            start(thread)

        thread_class: Any = threading.Thread
        thread_class.start = start_noted
        module_class: Any = torch.nn.Module
        module_class.compile = module_compile
        torch.compile = compile

    def compile(self, model: Any, kwargs: dict[str, Any], place: tuple[str, int]) -> Any:
        """What the program gets from ``torch.compile(model, **kwargs)``."""
        if place[0].startswith(_TORCH) or kwargs.get("disable"):
            return real_compile(model, **kwargs)
        if model is None:
            return lambda fn: self.compile(fn, kwargs, place)
        if isinstance(model, torch.nn.Module):
            from torch._dynamo.eval_frame import OptimizedModule

            context: Any = lambda fn: self._in_context(model, fn, kwargs, place)  # noqa: E731
            context.callback = None
            optimized = OptimizedModule(model, context)
            object.__setattr__(optimized, "_gbfix_region", True)
            return optimized
        if not callable(model):
            return real_compile(model, **kwargs)
        return self.wrap(model, model, kwargs, place)

    def wrap(
        self, target: Any, function: Any, kwargs: dict[str, Any], place: tuple[str, int]
    ) -> Any:
        """A function that stands for the compiled ``target``; ``function`` is what it calls."""
        region = self._region(target, kwargs, place)
        return self._wrapper(region, target, function)

    def _in_context(
        self, model: torch.nn.Module, function: Any, kwargs: dict[str, Any], place: tuple[str, int]
    ) -> Any:
        """What ``OptimizedModule.dynamo_ctx`` makes of a function: torch's own, or a framework's.

        Lightning gives it the steps of a module, of which the program takes some: a region each,
        once it is called.
        """
        by_steps = hasattr(model, "training_step")
        is_a_step = getattr(function, "__self__", None) is model and not getattr(
            function, "__name__", ""
        ).endswith(("__call__", "_call_impl"))
        if not by_steps:
            return self.wrap(model, function, kwargs, place)
        target = function if is_a_step else model
        made: list[Any] = []

        @functools.wraps(function)
        def gbfix_step(*args: Any, **kw: Any) -> Any:
            if torch.compiler.is_compiling():
                return function(*args, **kw)
            if not made:
                made.append(self.wrap(target, function, kwargs, place))
            return made[0](*args, **kw)

        step: Any = gbfix_step
        step._torchdynamo_inline = step._torchdynamo_orig_callable = function
        step._gbfix_region = True
        return step

    def observe(self, qualname: str, bound: bool = False) -> Callable[[Any], Any]:
        """A decorator that records calls of a function that nothing compiles (any more).

        What was compiled ``bound`` to an object is recorded so: with arguments as they were.
        """

        def decorate(function: Any) -> Any:
            region = self._region(function, {}, (function.__code__.co_filename, 0))
            if region is None:
                return function
            region.observed_only = True
            if bound:
                return self._method(region, function)
            return self._wrapper(region, function, function)

        return decorate

    # -- inside ------------------------------------------------------------------------------

    def _caller(self, model: Any) -> tuple[str, int]:
        """File and line of the frame that compiled, outside gbfix.

        Of a module that a framework compiles (or whose ``torch.compile`` it wraps), the project's
        own frame that led there; not past an import, as libraries compile their own parts then.
        """
        here = os.path.dirname(os.path.realpath(__file__))
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
            frame = frame.f_back
        nearest = frame.f_code.co_filename, frame.f_lineno
        outer: Any = frame if isinstance(model, torch.nn.Module) else None
        while outer is not None and not nearest[0].startswith(_TORCH):
            name = outer.f_code.co_filename
            if name.startswith("<frozen importlib"):
                break
            if self._project.owns(name):
                return name, outer.f_lineno
            outer = outer.f_back
        return nearest

    def _wrapper(self, region: Region | None, target: Any, function: Any) -> Any:
        def gbfix_region(*args: Any, **kwargs: Any) -> Any:
            if region is None or torch.compiler.is_compiling():
                return function(*args, **kwargs)
            # A decorated method arrives unbound: self is its first argument, and stays there.
            return self._call(region, target, function, args, kwargs)

        with contextlib.suppress(AttributeError, TypeError):
            functools.update_wrapper(gbfix_region, function)
        wrapper: Any = gbfix_region
        # Dynamo looks here when a compiled function calls another one: it traces the original.
        wrapper._torchdynamo_inline = function
        wrapper._torchdynamo_orig_callable = function
        wrapper._gbfix_region = True
        return wrapper

    def _method(self, region: Region, function: Any) -> Any:
        @functools.wraps(function)
        def gbfix_method(owner: Any, *args: Any, **kwargs: Any) -> Any:
            method = types.MethodType(function, owner)
            return self._wrapper(region, method, method)(*args, **kwargs)

        return gbfix_method

    def _call(
        self,
        region: Region,
        target: Any,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if self._is_inside():
            if self.inner is not None and not region.observed_only:
                with _out_of_its_way(target):
                    return self.inner(target, region)(*args, **kwargs)
            return function(*args, **kwargs)
        if os.getpid() != self._process:
            self._tell_of_child(region, target)
            return function(*args, **kwargs)
        # One call at a time, in the order in which they came: they fork, and are counted.
        with self._turns.mine() as is_mine:
            index = region.made
            region.made += 1
            if is_mine and self._is_wanted(region, target, args, kwargs):
                region.calls += 1
                return self._record(region, index, target, args, kwargs)
        self._changed(self._satisfied())
        return function(*args, **kwargs)

    def _is_wanted(
        self, region: Region, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        """Whether a call is one of the first, or of a kind that was not seen yet."""
        first = region.calls - region.others - region.resized < self._limit
        if not self._others or (region.others >= self._others and len(region.shapes) > 1):
            return first
        try:
            kind = kinds.kind_of(target, args, kwargs)
            is_new = kind not in region.kinds and region.others < self._others
            region.kinds.add(kind)
            shapes = kinds.shapes_of(args, kwargs)
            is_resized = shapes not in region.shapes and len(region.shapes) == 1
            region.shapes.add(shapes)
        except Exception:  # whatever the program's objects raise when they are looked at
            return first
        if not first:
            region.others += is_new
            region.resized += is_resized and not is_new
        return first or is_new or is_resized

    def _tell_of_child(self, region: Region, target: Any) -> None:
        """A process that the program forked calls a region: said once, not recorded."""
        if region.key in self._told or not self.tells_of_children:
            return
        self._told.add(region.key)
        code, name = definition(target)
        path, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
        self._announce(Failed(children.KIND, name, path, line, key=region.key))

    def _is_inside(self) -> bool:
        """Whether this call is a part of one that is recorded, or of what is tried at one."""
        if getattr(self._here, "depth", 0):
            return True
        if threading.current_thread() in self._started_inside:
            return True
        return self._recording not in (0, os.getpid())

    def _record(
        self,
        region: Region,
        index: int,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        self._here.depth = 1
        self._recording = os.getpid()
        try:
            with _out_of_its_way(target):
                return self._handler(region, index, target, args, kwargs)
        finally:
            self._here.depth = 0
            self._recording = 0
            self._changed(self._satisfied())

    def _satisfied(self) -> bool:
        return all(region.calls >= self._enough for region in self.regions.values())

    def _region(self, target: Any, kwargs: dict[str, Any], place: tuple[str, int]) -> Region | None:
        code, name = definition(target)
        path = code.co_filename if code is not None else ""
        if not self._project.owns(place[0]) and not self._project.owns(path):
            return None
        # Two functions of one name (lambdas, redefinitions) are told apart by their order.
        identity = code if not isinstance(target, torch.nn.Module) else type(target)
        key = self._codes.get(identity)
        if key is None:
            base = f"{path}::{name}"
            key, number = base, 1
            while key in self.regions:
                number += 1
                key = f"{base}#{number}"
            self._codes[identity] = key
        region = self.regions.get(key)
        if region is None:
            # The first `torch.compile` of a process does this, for eager code, too: what is never
            # compiled here is to raise the same errors as what is.
            torch.distributions.Distribution.set_default_validate_args(False)
            region = Region(key, dict(kwargs))
            self.regions[key] = region
            line = code.co_firstlineno if code is not None else place[1]
            options = {name: _shown(value) for name, value in kwargs.items()}
            bound = isinstance(target, types.MethodType)
            self._announce(RegionSeen(key, name, path, line, *place, options, bound))
            self._changed(False)
        return region


def _shown(value: object) -> str:
    text = repr(value)
    return getattr(value, "__name__", text) if text.startswith("<") else text


def definition(target: Any) -> tuple[Any, str]:
    """The code object and qualified name of what is compiled."""
    if isinstance(target, torch.nn.Module):
        forward: Any = vars(target).get("forward", type(target).forward)
        forward = getattr(forward, "__func__", forward)
        return getattr(_unwrapped(forward), "__code__", None), type(target).__qualname__
    function = _unwrapped(getattr(target, "__func__", target))
    if isinstance(function, functools.partial):
        function = _unwrapped(function.func)
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(_unwrapped(type(target).__call__), "__code__", None)
        return code, type(target).__qualname__
    return code, getattr(function, "__qualname__", type(target).__qualname__)


def _unwrapped(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
