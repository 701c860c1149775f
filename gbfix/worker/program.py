"""Runs the user's program as plain ``python`` would: ``__main__``, argv, cwd, ``sys.path``.

Source comes from the overlay where the overlay has the file, else from disk.
"""

from __future__ import annotations

import atexit
import builtins
import importlib.machinery
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

from gbfix.schema import Target
from gbfix.worker.overlay import Overlay


class ProgramError(Exception):
    """The target cannot be run at all: not found, or its callable is not there."""


def run_program(target: Target, overlay: Overlay, calls: int) -> int:
    """Run the target to its end; the exit status.  Exceptions of the program come through.

    Runs ``atexit`` handlers and joins non-daemon threads, as the interpreter does at its end.
    """
    os.chdir(target.cwd or os.getcwd())
    os.environ.update(target.environment)
    status = 0
    try:
        if target.kind == "script":
            _run_script(target, overlay)
        elif target.kind == "module":
            _run_module(target, overlay)
        else:
            _run_callable(target, calls)
    except SystemExit as error:
        status = _exit_status(error)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return status


def _exit_status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    print(error.code, file=sys.stderr)
    return 1


def _main_module(**attributes: Any) -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__.update({"__builtins__": builtins, "__annotations__": {}, **attributes})
    sys.modules["__main__"] = main
    return main


def _run_script(target: Target, overlay: Overlay) -> None:
    path = target.value
    full = os.path.abspath(path)
    sys.argv = [path, *target.args]
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    loader = importlib.machinery.SourceFileLoader("__main__", full)
    main = _main_module(__file__=full, __loader__=loader, __spec__=None, __cached__=None)
    main.__doc__ = None
    exec(overlay.code(full), main.__dict__)


def _run_module(target: Target, overlay: Overlay) -> None:
    sys.path.insert(0, os.getcwd())
    sys.argv = ["-m", *target.args]
    name = target.value
    if name == "pytest" and not any(item.startswith("--assert") for item in target.args):
        # Its rewriting of assertions reads test files by itself, past the texts that we serve.
        sys.argv.insert(1, "--assert=plain")
    spec = _find(name)
    if spec.submodule_search_locations is not None:
        name += ".__main__"
        spec = _find(name)
    if spec.origin is None or not spec.has_location:
        raise ProgramError(f"module {target.value!r} has no source file that gbfix could run")
    sys.argv[0] = spec.origin
    main = _main_module(
        __file__=spec.origin,
        __loader__=spec.loader,
        __spec__=spec,
        __cached__=spec.cached,
        __package__=spec.parent,
    )
    exec(overlay.code(spec.origin), main.__dict__)


def _find(name: str) -> importlib.machinery.ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise ProgramError(f"no module named {error.name!r}") from error
    if spec is None:
        raise ProgramError(f"no module named {name!r}")
    return spec


def _run_callable(target: Target, calls: int) -> None:
    """Import the file, find the callable, and call it compiled on the value of ``--inputs``.

    ``inputs`` is evaluated in the file's own namespace, with `torch` added.  A tuple gives the
    positional arguments, a dict with the keys ``args``, ``kwargs`` and ``init`` (arguments of an
    ``nn.Module`` class) says all of it, anything else is the only argument.
    """
    import torch

    path, _, qualname = target.value.partition("::")
    full = os.path.abspath(path)
    sys.argv = [full]
    sys.path.insert(0, os.path.dirname(full))
    name = os.path.splitext(os.path.basename(full))[0]
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise ProgramError(f"{path} is not a Python file")
    spec = _with_overlay(spec)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    assert spec.loader is not None
    spec.loader.exec_module(module)
    item: Any = module
    for part in qualname.split("."):
        if not hasattr(item, part):
            raise ProgramError(f"{path} has no {qualname!r}")
        item = getattr(item, part)
    space = {"torch": torch, **vars(module)}
    given: Any = eval(target.inputs, space) if target.inputs else ()
    args, kwargs, init = _arguments(given)
    if isinstance(item, type):
        if not issubclass(item, torch.nn.Module):
            raise ProgramError(f"{qualname} is a class, but not an nn.Module: name a function")
        item = item(*init)
    if not callable(item):
        raise ProgramError(f"{qualname} is not callable")
    compiled: Callable[..., Any] = item
    if not hasattr(item, "_gbfix_region"):
        compiled = torch.compile(item)
    for _ in range(max(calls, 1)):
        compiled(*args, **kwargs)


def _with_overlay(spec: importlib.machinery.ModuleSpec) -> importlib.machinery.ModuleSpec:
    from gbfix.worker.overlay import OverlayFinder

    for finder in sys.meta_path:
        if isinstance(finder, OverlayFinder):
            return finder.served(spec)
    return spec


def _arguments(given: Any) -> tuple[tuple[Any, ...], Mapping[str, Any], tuple[Any, ...]]:
    if isinstance(given, dict) and given and set(given) <= {"args", "kwargs", "init"}:
        return tuple(given.get("args", ())), given.get("kwargs", {}), tuple(given.get("init", ()))
    if isinstance(given, tuple):
        return given, {}, ()
    return (given,), {}, ()
