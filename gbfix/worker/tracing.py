"""Asks Dynamo where and why a region breaks, and turns its answer into `GraphBreak` records."""

from __future__ import annotations

import contextlib
import linecache
import operator
import os
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch._dynamo
from torch._C._dynamo import eval_frame as _eval_frame
from torch._dynamo import exc as dynamo_exc

from gbfix.registry import READS_NUMBER, Registry, family_for
from gbfix.schema import Frame, GraphBreak
from gbfix.worker.values import Project

_CODE = re.compile(r"/gb(\d{4})\.html")
#: What stands above the message of a backend's error.
_BACKEND = re.compile(r"^backend='\w+' raised:\n(?:\w+: )?")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


_CONTROL_FLOW = frozenset({"cond", "while_loop", "scan", "map_impl", "associative_scan"})


def is_break(error: BaseException) -> bool:
    """Whether an exception is the compiler's word, not the program's."""
    if isinstance(error, dynamo_exc.TorchDynamoException):
        return True
    name = type(error).__name__
    module = type(error).__module__ or ""
    return name in ("GuardOnDataDependentSymNode", "UncapturedHigherOrderOpError") or (
        module.startswith(("torch._dynamo", "torch._inductor", "torch.fx.experimental"))
    )


def is_plain_break(error: BaseException) -> bool:
    """Whether a compile without ``fullgraph=True`` breaks the graph where this was raised.

    What a control-flow operator refuses is raised there, too.
    """
    if isinstance(error, dynamo_exc.UncapturedHigherOrderOpError):
        return False
    return isinstance(error, dynamo_exc.Unsupported)


def is_from_tracing(error: BaseException) -> bool:
    """Whether an exception left the compiler: its own, or one of the program that Dynamo met.

    Where the program raises nothing uncompiled, that is a break, too: an operator that fails on
    fake tensors, or Dynamo's form of a protocol that differs from Python's.  A library may have
    caught it and raised an error of its own from it.
    """
    return _told(error) is not None


def _told(error: BaseException) -> BaseException | None:
    """The compiler's own error, where one was raised from it."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        if is_break(one) or "\nfrom user code:" in str(one):
            return one
        seen.append(one)
        one = one.__cause__ or one.__context__
    return None


def extract(error: BaseException, region: str, project: Project) -> GraphBreak:
    """The break that an exception of the compiler describes."""
    error = _told(error) or error
    message = _BACKEND.sub("", _strip(str(error)))
    gb_type = getattr(error, "gb_type", None) or ""
    kind = type(error).__name__
    frames = _frames(error, project)
    first, explanation, hints, context = _parts(message)
    registry = Registry.load()
    found = _CODE.search(message)
    code = f"GB{found.group(1)}" if found and gb_type else ""
    if not code and gb_type:
        code = registry.code_for(gb_type) or ""
    if not code:
        code = family_for(kind if is_break(error) else "InternalTorchDynamoError", message)
    site = next((frame for frame in reversed(frames) if frame.in_project), None)
    return GraphBreak(
        code=code,
        gb_type=gb_type or first,
        explanation=explanation or first,
        context=context,
        hints=hints,
        frames=tuple(frames),
        region=region,
        site=site,
        error_type=kind,
        message=message[:4000],
    )


def _strip(message: str) -> str:
    """Without the advice on environment variables and the quoted stack that torch appends.

    Without addresses, too: they are others in each run.
    """
    for marker in ("\nSet TORCHDYNAMO_VERBOSE=1", "\nfrom user code:", "\nUser Stack (most recent"):
        message = message.partition(marker)[0]
    return _ADDRESS.sub("", message).strip()


def _parts(message: str) -> tuple[str, str, tuple[str, ...], str]:
    """First line, explanation, hints and developer context of a Dynamo message."""
    # A nested report ("another graph break occurred") describes its consequence last.
    message = message.partition("\n\n*** While handling this graph break")[0]
    first = message.splitlines()[0].strip() if message else ""
    explanation = _section(message, r"\n\s*Explanation: ")
    hints = tuple(_clean(part) for part in _sections(message, r"\n\s*Hint: "))
    context = _section(message, r"\n\s*Developer debug context: ")
    return first, explanation, hints, context


_HEADS = r"\n\s*(?:Explanation|Hint|Developer debug context|Higher Order Operator): |\n\n For more"


def _sections(message: str, head: str) -> Iterator[str]:
    for start in re.finditer(head, message):
        rest = message[start.end() :]
        end = re.search(_HEADS, rest)
        yield rest[: end.start()] if end else rest


def _section(message: str, head: str) -> str:
    return _clean(next(_sections(message, head), ""))


def _clean(text: str) -> str:
    return " ".join(text.split())


def _frames(error: BaseException, project: Project) -> list[Frame]:
    stack = getattr(error, "real_stack", None)
    if not stack:
        cause = error.__cause__ or error.__context__
        while cause is not None and not stack:
            stack = getattr(cause, "real_stack", None)
            cause = cause.__cause__ or cause.__context__
    if not stack:
        stack = _told_by_graph(str(error))
    if not stack:
        # Without Dynamo's own stack the Python traceback still passes through the user's frames.
        stack = [
            item
            for item in traceback.extract_tb(error.__traceback__)
            if project.owns(item.filename)
        ]
    return [to_frame(item, project) for item in stack]


def _told_by_graph(message: str) -> list[traceback.FrameSummary]:
    """The lines of the program that a node of a graph comes from, as a backend's error tells."""
    _, told, rest = message.partition("\nOriginal traceback:\n")
    if not told:
        return []
    return [
        traceback.FrameSummary(path, int(line), name)
        for path, line, name in re.findall(r'^\s*File "(.+)", line (\d+), in (\S+)$', rest, re.M)
    ]


def to_frame(item: traceback.FrameSummary, project: Project) -> Frame:
    """A frame with columns in characters (Python counts UTF-8 bytes)."""
    line = item.lineno or 1
    text = linecache.getline(item.filename, line)
    end_line = getattr(item, "end_lineno", None)
    end_text = text if end_line in (None, line) else linecache.getline(item.filename, end_line)
    return Frame(
        path=item.filename,
        line=line,
        function=item.name,
        column=characters(text, getattr(item, "colno", None)),
        end_line=end_line,
        end_column=characters(end_text, getattr(item, "end_colno", None)),
        text=text.rstrip("\r\n"),
        in_project=project.owns(item.filename),
    )


def characters(text: str, offset: int | None) -> int | None:
    """A byte offset into a line of source as a character offset."""
    if offset is None or text.isascii():
        return offset
    return len(text.encode()[:offset].decode("utf-8", "ignore"))


class GraphCounter:
    """A backend that counts the graphs it is given and runs them as they are.

    ``conditionals`` is the largest number of control-flow operators in one of them, nested ones
    included, made while gradients were enabled.
    """

    def __init__(self) -> None:
        self.graphs = 0
        self.conditionals = 0
        #: Calls of operators, methods and modules in each graph, in the order of compilation.
        self.sizes: list[int] = []

    def __call__(self, module: torch.fx.GraphModule, inputs: Any, **kwargs: Any) -> Any:
        check_numbers_read(module)
        self.graphs += 1
        self.sizes.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        asks = any(isinstance(one, torch.Tensor) and one.requires_grad for one in inputs)
        if torch.is_grad_enabled() and asks:
            self.conditionals = max(self.conditionals, _conditionals(module))
        return module.forward


class ReadsNumber(RuntimeError):
    """What every compiling backend of torch raises for a graph that Dynamo makes."""


def check_numbers_read(module: torch.fx.GraphModule) -> None:
    """Raise `ReadsNumber` where an index is a number that no compiling backend takes.

    Dynamo lets ``table[t]`` pass, with a whole number ``t`` on the CPU that is an input of the
    graph; AOTAutograd reads ``t``, and cannot.  It takes ``table[t.item()]``, but not beside
    something else, as in ``table[:, t.item()]`` (measured with torch 2.13).  Without
    ``fullgraph=True`` the frame is run uncompiled, or the compiled call raises IndexError.
    """
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target not in (operator.getitem, operator.setitem):
            continue
        of, index = node.args[:2]
        if not _is_tensor(of):
            continue
        parts = index if isinstance(index, tuple) else (index,)
        by_tensor = any(
            _is_tensor(part) and _is_whole(part.meta["example_value"]) for part in parts
        )
        by_number = isinstance(index, tuple) and any(map(_is_read, parts))
        if by_tensor or by_number:
            told = node.meta.get("stack_trace") or ""
            raise ReadsNumber(
                f"{READS_NUMBER}, which no compiling backend reads\nOriginal traceback:\n{told}"
            )


def _is_read(node: Any) -> bool:
    """Whether it is a number that the graph reads of a tensor, or is computed of one."""
    if not isinstance(node, torch.fx.Node):
        return False
    if not isinstance(node.meta.get("example_value"), torch.SymInt):
        return False
    return node.target == "item" or any(map(_is_read, node.all_input_nodes))


def _is_tensor(node: Any) -> bool:
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    return isinstance(value, torch.Tensor)


def _is_whole(value: torch.Tensor) -> bool:
    whole = not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)
    return value.dim() == 0 and whole


def checked(module: torch.fx.GraphModule, inputs: Any, **kwargs: Any) -> Any:
    """Runs a graph as it is, where a compiling backend would take it."""
    check_numbers_read(module)
    return module.forward


def _conditionals(module: torch.fx.GraphModule) -> int:
    """Control-flow operators of a graph, and of those within it, that may be differentiated."""
    found, enabled = 0, True
    for node in module.graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            enabled = bool(node.args[0])
        elif enabled and node.op == "call_function":
            found += getattr(node.target, "__name__", "") in _CONTROL_FLOW
            held = [it.target for it in node.all_input_nodes if it.op == "get_attr"]
            parts = [operator.attrgetter(str(name))(module) for name in held]
            found += sum(_conditionals(it) for it in parts if isinstance(it, torch.fx.GraphModule))
    return found


@contextlib.contextmanager
def all_breaks(report: Callable[[BaseException], None]) -> Iterator[None]:
    """Report every graph break that Dynamo logs inside the block (``fullgraph=False``)."""
    from torch._dynamo import symbolic_convert

    translator: Any = symbolic_convert.InstructionTranslatorBase
    original = translator.log_graph_break

    def log_graph_break(self: Any, code_options: Any, reason: str = "", exc: Any = None) -> Any:
        if exc is not None and not getattr(exc, "logged", False):
            report(exc)
        return original(self, code_options, reason=reason, exc=exc)

    translator.log_graph_break = log_graph_break
    try:
        yield
    finally:
        translator.log_graph_break = original


def set_quiet() -> None:
    """Keep the compiler's own log lines out of the program's output."""
    import logging

    logs: Any = torch._logging
    manager: Any = logging.Logger.manager
    with contextlib.ExitStack() as stack:
        if hasattr(manager, "_clear_cache"):
            # Each of torch's hundred loggers would clear what all loggers remember; once is enough.
            stack.callback(manager._clear_cache)
            manager.__dict__["_clear_cache"] = lambda: None
            stack.callback(manager.__dict__.pop, "_clear_cache", None)
        logs.set_logs(all=logging.CRITICAL)


def skip_guard_timing() -> None:
    """Do without Dynamo's measurement of each new guard, which first fills 32 MB to flush caches.

    In a fork that is as much time as a small trace; the figure goes into a log that nobody reads.
    """
    from torch._dynamo import guards

    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda *args: 0.0


def limit_recompiles(most: int) -> None:
    """How often Dynamo compiles the same code anew before it leaves it to Python."""
    config: Any = torch._dynamo.config
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        with contextlib.suppress(AttributeError):
            setattr(config, name, most)


def prepare_compiler(backend: str) -> None:
    """Settings for validating: no caches (they hide lost effects), no child processes, no logs."""
    torch._dynamo.reset()
    config: Any = torch._dynamo.config
    config.suppress_errors = False
    # A sequence of varied inputs meets more guards than a program does; rung 6 counts recompiles.
    limit_recompiles(512)
    set_quiet()
    try:
        functorch: Any = torch._functorch.config
        functorch.enable_autograd_cache = False
    except AttributeError:
        pass
    if backend == "inductor":
        import torch._inductor.config as inductor

        _compile_in_threads(inductor)
        # Cached graphs hide lost effects; compiled C++ is known by its text, and may be kept.
        inductor.fx_graph_cache = False
        inductor.fx_graph_remote_cache = False
        inductor.fallback_random = True


def _compile_in_threads(inductor: Any) -> None:
    """Have C++ kernels compiled side by side: a C++ compiler takes most of the time.

    Each is a process of its own that a thread waits for; inductor's own pool of Python processes
    is for Triton, and would outlive us.
    """
    inductor.compile_threads = 1
    try:
        from torch._inductor.async_compile import AsyncCompile

        pool: Any = AsyncCompile
        pool.use_process_pool = classmethod(lambda cls: False)
    except ImportError:
        return
    # Torch's own count heeds the cores that this process may use, and the user's variable.
    decide = getattr(inductor, "decide_compile_threads", os.cpu_count)
    inductor.compile_threads = decide() or 1


def prepare_timing() -> None:
    """Settings for timing: as the user's, but that each compilation is a whole one, made here."""
    set_quiet()
    import torch._inductor.config as inductor

    inductor.compile_threads = 1
    inductor.fx_graph_cache = False
    inductor.fx_graph_remote_cache = False


def _as_eager(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    return module.forward


def make_compiled(
    target: Any,
    backend: str | Callable[..., Any],
    *,
    fullgraph: bool,
    dynamic: bool | None,
    compile_: Any,
) -> Any:
    """``target`` compiled by the real `torch.compile` with the given backend."""
    plain = backend == "eager" or backend is checked
    if plain and torch._C._functorch.peek_interpreter_stack() is not None:
        # Inside `torch.func.vmap` and its like Dynamo lets only this backend through, by name.
        backend = _as_eager
    return compile_(target, backend=backend, fullgraph=fullgraph, dynamic=dynamic)


class Counted:
    """A function under ``fullgraph=True`` of which a call may run nothing that is compiled.

    A cut leaves choices to Python: ``if random() < p: return x`` runs none of the parts.  torch
    calls that an error, as if nothing could be compiled; here, `frames` counts what was.
    """

    def __init__(self, compiled: Any, frames: int = 0) -> None:
        self.frames = frames
        self._compiled = compiled
        self._count = getattr(_eval_frame, "set_fullgraph_compiled_frame_count", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._count is None:
            self.frames += 1
            return self._compiled(*args, **kwargs)
        before = self._count(0)  # torch looks at the count only where nobody counts yet
        try:
            return self._compiled(*args, **kwargs)
        finally:
            self.frames += max(self._count(before), 0)


def first_line(error: BaseException) -> str:
    """What an error says, in a line: for a list of differences."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # "backend='aot_eager' raised:" says nothing without what follows.
    count = 2 if lines and lines[0].endswith(":") else 1
    return f"{type(error).__name__}: {' '.join(lines[:count])}"[:300]
