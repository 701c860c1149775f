"""Apply a codemod to a small program, and compare what original and patched program do.

The facts come from the original program itself: it runs once under `sys.settrace`, and an
expression's fact is made of its value in the frame just before the break's line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import linecache
import logging
import os
import sys
import tempfile
import textwrap
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.schema import Fact, Frame, GraphBreak, Span

BACKENDS = ("eager", "aot_eager", "inductor")
_numbers = itertools.count()


def fact_of(value: Any, depth: int = 2) -> Fact:
    """A value as the recorder would describe it, as far as these tests need."""
    kind = type(value).__name__
    name = f"{type(value).__module__}.{kind}".removeprefix("builtins.")
    if isinstance(value, torch.Tensor):
        name = "torch.Tensor" if type(value) is torch.Tensor else name
        return Fact(
            "tensor",
            name,
            shape=tuple(value.shape),
            dtype=str(value.dtype),
            device=str(value.device),
            strides=tuple(value.stride()),
            requires_grad=value.requires_grad,
            is_leaf=value.is_leaf,
            identity=id(value),
            storage=value.untyped_storage().data_ptr() or id(value),
        )
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        kind = "none" if value is None else kind
        return Fact(kind, name, value=value, constant=True)
    if isinstance(value, list | tuple | set):
        kind = next(k for k in ("list", "tuple", "set") if isinstance(value, eval(k)))
        return Fact(kind, name, items=tuple(fact_of(v, depth - 1) for v in value))
    if isinstance(value, dict):
        return Fact(
            "dict",
            name,
            keys=tuple(str(k) for k in value),
            items=tuple(fact_of(v, depth - 1) for v in value.values()),
        )
    if isinstance(value, types.ModuleType):
        return Fact("pymodule", "module", qualname=value.__name__)
    if isinstance(value, type):
        return Fact("class", "type", qualname=f"{value.__module__}.{value.__qualname__}")
    if isinstance(value, torch.nn.Module):
        return Fact("module", name)
    if isinstance(value, torch.dtype | torch.device):
        return Fact("object", f"torch.{kind}")
    if type(value).__module__ == "numpy" and kind == "ndarray":
        return Fact("ndarray", "numpy.ndarray", shape=value.shape, dtype=str(value.dtype))
    if callable(value):
        home = getattr(value, "__module__", "") or ""
        return Fact("function", kind, qualname=f"{home}.{getattr(value, '__qualname__', '')}")
    return Fact("object", name)


@dataclasses.dataclass
class SeenFacts:
    """Facts evaluated in the frame that was current just before the break's line."""

    frame_globals: dict[str, Any]
    frame_locals: dict[str, Any]
    counts: Mapping[int, int]

    def expression(self, span: Span, text: str) -> Fact | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return fact_of(eval(textwrap.dedent(text), self.frame_globals, self.frame_locals))
        except Exception:
            return None

    def locals_before(self, line: int) -> Mapping[str, Fact]:
        return {name: fact_of(value) for name, value in self.frame_locals.items()}

    def executed(self, line: int) -> int | None:
        return self.counts.get(line, 0)


def load(source: str, path: str) -> dict[str, Any]:
    """Run a program's text as a module and give its names."""
    name = os.path.splitext(os.path.basename(path))[0]
    module = types.ModuleType(name)
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    exec(compile(source, path, "exec"), module.__dict__)
    return module.__dict__


@contextlib.contextmanager
def captured() -> Iterator[Callable[[], tuple[str, str]]]:
    """Stdout and stderr, whether written through `sys` or to the file descriptors."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2), sys.stdout, sys.stderr
    files = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2)]  # noqa: SIM115
    try:
        for number, file in enumerate(files, 1):
            os.dup2(file.fileno(), number)
        sys.stdout, sys.stderr = (
            open(number, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
            for number in (1, 2)
        )

        def texts() -> tuple[str, str]:
            sys.stdout.flush()
            sys.stderr.flush()
            found = []
            for file in files:
                file.seek(0)
                found.append(file.read())
            return found[0], found[1]

        yield texts
    finally:
        sys.stdout, sys.stderr = kept[2:]
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        os.close(kept[0])
        os.close(kept[1])


@dataclasses.dataclass
class Outcome:
    """Everything that a few calls of a function did."""

    results: list[Any]
    inputs: list[Any]
    gradients: list[Any]
    out: str
    err: str
    logged: list[tuple[str, str, str]]
    warned: list[str]
    error: str = ""


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("torch."):
            self.found.append((record.name, record.levelname, record.getMessage()))


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, list | tuple):
        return type(value)(_copy(item) for item in value)
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return value


def _tensors(value: Any) -> list[torch.Tensor]:
    return [v for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def observe(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> Outcome:
    """Call the function on copies of the inputs, with a backward pass where one is possible."""
    records = _Records()
    root = logging.getLogger()
    level = root.level
    root.addHandler(records)
    root.setLevel(logging.INFO)
    outcome = Outcome([], [], [], "", "", records.found, [])
    try:
        with captured() as texts, warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("default")
            for call in calls:
                arguments = _copy(call)
                torch.manual_seed(0)
                try:
                    result = function(*arguments)
                except Exception as error:
                    outcome.error = f"{type(error).__name__}: {error}"
                    break
                for tensor in _tensors(result):
                    if tensor.requires_grad:
                        tensor.sum().backward(retain_graph=True)
                outcome.results.append(result)
                outcome.inputs.append([t.detach().clone() for t in _tensors(arguments)])
                outcome.gradients.append([t.grad for t in _tensors(arguments) if t.is_leaf])
            outcome.out, outcome.err = texts()
        # Those of the compiler itself are no effect of the program.
        outcome.warned = [str(w.message) for w in seen if not _is_noise(w)]
    finally:
        root.removeHandler(records)
        root.setLevel(level)
    return outcome


def _is_noise(warning: warnings.WarningMessage) -> bool:
    """The compiler's own, and files that are closed by reference counting, as written."""
    return "site-packages" in warning.filename or warning.category is ResourceWarning


def assert_same(got: Outcome, wanted: Outcome, where: str, *, stderr: bool) -> None:
    assert got.error == wanted.error, where
    assert got.out == wanted.out, where
    assert got.logged == wanted.logged, where
    assert got.warned == wanted.warned, where
    if stderr:
        assert got.err == wanted.err, where
    for name in ("results", "inputs", "gradients"):
        torch.testing.assert_close(
            getattr(got, name), getattr(wanted, name), equal_nan=True, msg=lambda m: f"{where}: {m}"
        )


def site_of(source: str, at: str, calls: list[tuple[Any, ...]], *, path: str, code: str) -> Site:
    """The site of the expression ``at``, with facts from a run of ``f`` on the calls."""
    before = source[: source.index(at)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    end_line = line + at.count("\n")
    end_column = column + len(at) if end_line == line else len(at) - at.rfind("\n") - 1
    names = load(source, path)
    seen: list[dict[str, Any]] = []
    counts: dict[int, int] = {}

    def trace(frame: types.FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != path:
            return None
        if event == "line":
            counts[frame.f_lineno] = counts.get(frame.f_lineno, 0) + 1
            if frame.f_lineno == line:
                seen.append(dict(frame.f_locals))
        return trace

    # pytest-xdist sends warnings to another process, which cannot import a trial's own classes.
    with captured(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.settrace(trace)
        try:
            for call in calls:
                names["f"](*_copy(call))
        finally:
            sys.settrace(None)
    frame = Frame(path, line, "f", column, end_line, end_column, at)
    graph_break = GraphBreak(code, "", "", "", (), (frame,), "f", frame)
    facts = SeenFacts(names, seen[0] if seen else {}, counts)
    return Site(path, source, graph_break, facts, entry=path)


def proposals(
    codemod: Codemod, source: str, at: str, calls: list[tuple[Any, ...]], code: str = ""
) -> tuple[list[Rewrite], list[Advice]]:
    """What the codemod proposes at ``at``; every call uses a module name of its own."""
    source = textwrap.dedent(source).lstrip("\n")
    path = f"trial_{next(_numbers)}.py"
    site = site_of(source, at, calls, path=path, code=code or codemod.codes[0])
    found = list(codemod.propose(site))
    return (
        [item for item in found if isinstance(item, Rewrite)],
        [item for item in found if isinstance(item, Advice)],
    )


def check(
    codemod: Codemod,
    source: str,
    at: str,
    calls: list[tuple[Any, ...]],
    *,
    backends: tuple[str, ...] = BACKENDS,
    stderr: bool = False,
) -> str:
    """Assert that the first rewrite does what the original did; returns the patched text."""
    source = textwrap.dedent(source).lstrip("\n")
    rewrites, advice = proposals(codemod, source, at, calls)
    assert rewrites, advice
    ((path, patched),) = rewrites[0].edits.items()
    # The original runs anew: its module state must be as fresh as that of the patched one.
    wanted = observe(load(source, path)["f"], calls)
    names = load(patched, path)
    assert_same(observe(names["f"], calls), wanted, f"plain eager of\n{patched}", stderr=stderr)
    for backend in backends:
        torch._dynamo.reset()
        with torch._inductor.config.patch(force_disable_caches=True):
            again = load(patched.replace(_space(path), f"{_space(path)}_{backend}"), path)
            compiled = torch.compile(again["f"], backend=backend, fullgraph=True)
            assert_same(observe(compiled, calls), wanted, f"{backend} of\n{patched}", stderr=stderr)
    return patched


def _space(path: str) -> str:
    return path.removesuffix(".py")
