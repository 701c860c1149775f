"""Processes that the program starts: nothing is recorded there, but what they call is named.

A forked one has the recorder's stand-ins, which tell of themselves (`Recorder`).  A spawned one
is a new Python: `tell_spawned` has `multiprocessing` give it a note, and reading that installs
stand-ins which do nothing but say that a region was called.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

KIND = "in-child"


class _Note:
    """Read by a spawned process before it imports anything of the program."""

    def __init__(self, events: str) -> None:
        self.events = events

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return watch, (self.events,)


def tell_spawned(events: str) -> None:
    """From now on, processes that `multiprocessing` spawns say which regions they call."""
    import multiprocessing.spawn as spawn

    prepare = spawn.get_preparation_data

    @functools.wraps(prepare)
    def get_preparation_data(name: str) -> Any:
        return {"gbfix": _Note(events), **prepare(name)}

    vars(spawn)["get_preparation_data"] = get_preparation_data


def watch(events: str) -> None:
    """In a spawned process: note the calls of what it compiles, once torch is loaded."""
    if "torch" in sys.modules:
        _install(events)
    else:
        sys.meta_path.insert(0, _OnTorch(events))


class _OnTorch:
    """Finds nothing by itself; installs the stand-ins when torch has been loaded."""

    def __init__(self, events: str) -> None:
        self._events = events

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(fullname)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _install(self._events)

            loader.exec_module = exec_module
        return spec


def _install(events: str) -> None:
    import torch

    real_compile: Any = torch.compile
    real_module_compile: Any = torch.nn.Module.compile
    seen: set[tuple[str, str, int]] = set()

    def noting(target: Any, function: Any) -> Any:
        from gbfix.worker.protocol import EventWriter, Failed
        from gbfix.worker.recorder import definition

        code, name = definition(target)
        path, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if (name, path, line) not in seen:
                seen.add((name, path, line))
                key = f"{path}::{name}"
                EventWriter(events).write(Failed(KIND, name, path, line, key=key))
            return function(*args, **kwargs)

        return called

    @functools.wraps(real_compile)
    def compile(model: Any = None, **kwargs: Any) -> Any:
        if model is None:
            return lambda fn: compile(fn, **kwargs)
        made = real_compile(model, **kwargs)
        by = sys._getframe(1).f_code.co_filename
        if kwargs.get("disable") or by.startswith(os.path.dirname(torch.__file__)):
            return made
        if isinstance(made, torch.nn.Module):
            made.forward = noting(model, made.forward)
            return made
        return noting(model, made) if callable(made) else made

    def module_compile(module: Any, *args: Any, **kwargs: Any) -> None:
        real_module_compile(module, *args, **kwargs)
        module._compiled_call_impl = noting(module, module._compiled_call_impl)

    module_class: Any = torch.nn.Module
    module_class.compile = module_compile
    torch.compile = compile
