"""The fork server: a process with torch and dynamo loaded that forks one child for each job.

Why not `multiprocessing`'s forkserver: its children know that they are children (process names,
`parent_process()`, a re-imported main module, no `atexit`), and the user's program must see what
plain python shows.  This one speaks a line protocol on a socket:

    parent -> ``fork JOB_DIR``          zygote -> ``started JOB_DIR PID``
    parent -> ``kill JOB_DIR``          zygote -> ``exited JOB_DIR STATUS``

The server runs no torch operator of any size itself: an OpenMP pool or autograd thread that exists
before the fork would be missing after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import signal
import socket
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

#: Loaded before the first fork: what every run needs.
FIRST = ("torch", "torch._dynamo", "numpy", "gbfix.worker.job")
#: Loaded while the first job runs: what compiling needs (measured by diffing ``sys.modules``).
SECOND = (
    "torch._dynamo.backends.debugging",
    "torch._dynamo.backends.inductor",
    "torch._dynamo.repro.after_dynamo",
    "torch._dynamo.dce_extra_outputs",
    "torch._subclasses.schema_check_mode",
    "torch._export.passes._node_metadata_hook",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.compiler_bisector",
    "torch.fx.experimental.validator",
    "torch.export._trace",
    "torch.distributed.tensor.experimental",
    "torch.utils.serialization",
    "torch.utils.serialization.config",
)
#: Loaded last, when idle: wanted by ``aot_eager`` in training, and slow to import.
THIRD = (
    "torch._inductor.decomposition",
    "torch._inductor.lowering",
    "torch._inductor.fx_passes.dedupe_symint_uses",
    "torch._inductor.pattern_matcher",
    "torch._functorch._activation_checkpointing.remat_using_tags_for_fwd_loss_bwd_graph_pass",
    "torch._functorch._aot_autograd.subclass_codegen",
    "multiprocessing.synchronize",
)
#: Whether a compilation writes logs, or may be another one than usual.  Asked before torch is
#: imported, which sets such variables itself.
_IS_WATCHED = any(
    name.startswith(("TORCH_TRACE", "TORCH_LOGS", "TORCH_COMPILE", "TORCHDYNAMO", "TORCHINDUCTOR"))
    for name in os.environ
)

#: The server's own process, as its children know it.
_server = 0

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies, so that nothing outlives gbfix."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _adopt_orphans() -> None:
    """Become the parent of residents, whose own parents have ended, and wait for them in time."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def held_elsewhere() -> set[str]:
    """Files that other processes than the server and those under it have open to write.

    What changes in them is no effect of the program: gbfix's own output, redirected into the
    program's folder, or a log that somebody else keeps there.  Linux only, empty elsewhere.
    """
    found: set[str] = set()
    if not _server:
        return found  # not under a server: nobody can be told from the program
    for name in _listed("/proc"):
        if not name.isdigit() or _is_ours(int(name)):
            continue
        for number in _listed(f"/proc/{name}/fd"):
            with contextlib.suppress(OSError, IndexError, ValueError):
                path = os.readlink(f"/proc/{name}/fd/{number}")
                if not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
                    continue
                with open(f"/proc/{name}/fdinfo/{number}") as file:
                    flags = int(file.read().partition("flags:")[2].split()[0], 8)
                if flags & os.O_ACCMODE != os.O_RDONLY:
                    found.add(path)
    return found


def _listed(folder: str) -> list[str]:
    """Names in a folder; none where it is gone, or not for us to see."""
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _is_ours(pid: int) -> bool:
    """Whether a process is the server, or one that was started under it."""
    while pid > 1:
        if pid == _server:
            return True
        try:
            with open(f"/proc/{pid}/stat") as file:
                # The name, in brackets, may hold anything.
                pid = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def _preload(names: tuple[str, ...]) -> None:
    import importlib
    import warnings

    registry = getattr(weakref.finalize, "_registry", {})
    before = set(registry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            # A module that another torch version lacks costs speed only.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    # Torch would take its operator libraries apart at the end of every child.
    for finalizer in set(registry) - before:
        finalizer.atexit = False


def load_all() -> None:
    """Load all that a child of an idle server has, in a process that was forked too early for it.

    Not inside the program's own modes, which would see what is done here.
    """
    import random

    import torch

    modes: Any = torch._C
    if modes._len_torch_dispatch_stack() or modes._len_torch_function_stack():
        return
    if modes._functorch.peek_interpreter_stack() is not None:
        return
    streams = random.getstate(), torch.get_rng_state()
    with contextlib.suppress(Exception):
        _preload(SECOND)
        _preload(THIRD)
        _warm_up()
    random.setstate(streams[0])
    torch.set_rng_state(streams[1])


def _warm_up() -> None:
    """Compile something small, so that no child has to fill Dynamo's tables again.

    That halves what tracing a small region takes in a child.  No gradients: an autograd thread
    would not survive a fork.  Not where there is a GPU: to ask for it may keep children from it.
    """
    import warnings

    import torch

    if _IS_WATCHED or os.path.exists("/dev/nvidiactl"):
        return
    if torch.accelerator.is_available():
        return
    with (
        contextlib.suppress(Exception),
        warnings.catch_warnings(),
        _no_monitor(),
        torch.no_grad(),
    ):
        warnings.simplefilter("ignore")
        try:
            for backend in ("eager", "aot_eager"):
                # Not torch.compile: in a job that is the recorder's, which would see a region.
                torch._dynamo.optimize(backend, nopython=True)(_small)(torch.ones(3))
                torch._dynamo.reset()
        finally:
            torch._dynamo.reset()


@contextlib.contextmanager
def _no_monitor() -> Iterator[None]:
    """Within, a progress bar (AOTAutograd shows one, if tqdm is there) starts no thread."""
    import importlib

    try:
        bar: Any = importlib.import_module("tqdm.std").tqdm
    except ImportError:
        yield
        return
    before = bar.monitor_interval
    bar.monitor_interval = 0
    try:
        yield
    finally:
        bar.monitor_interval = before


def _small(x: Any) -> Any:
    y = x.relu() + 1
    return y.sum(), y


def main(fd: int) -> None:
    """Serve on the socket ``fd`` until it closes."""
    global _server
    _server = os.getpid()
    die_with_parent()
    _adopt_orphans()
    # Whoever started us may block signals: ends of children would go unseen.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = socket.socket(fileno=fd)
    wake_read, wake_write = os.pipe()
    for end in (wake_read, wake_write):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    try:
        _preload(FIRST)
    except Exception as error:
        server.sendall(f"broken {type(error).__name__}: {error}\n".replace("\n", " ").encode())
        return
    import torch

    server.sendall(f"ready {torch.__version__}\n".encode())
    Server(server, wake_read).serve()


class Server:
    """The loop: fork on request, report exits, load the rest while idle."""

    def __init__(self, server: socket.socket, wake: int) -> None:
        self._socket = server
        self._wake = wake
        self._children: dict[int, str] = {}
        self._pending: list[Callable[[], None]] = [
            functools.partial(_preload, SECOND),
            functools.partial(_preload, THIRD),
            _warm_up,
        ]
        self._forked = False

    def serve(self) -> None:
        import select

        buffer = b""
        while True:
            # Idle imports start once a job runs: the first fork must not wait for them.
            timeout = 0.0 if self._forked and self._pending else None
            watched: list[Any] = [self._socket, self._wake]
            ready, _, _ = select.select(watched, [], [], timeout)
            if not ready:
                self._pending.pop(0)()
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            self._reap()
            if self._socket in ready:
                chunk = self._socket.recv(65536)
                if not chunk:
                    break
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    self._handle(line.decode())
        for pid in self._children:
            _kill_group(pid)

    def _handle(self, line: str) -> None:
        command, _, directory = line.partition(" ")
        if command == "fork":
            self._fork(directory)
        elif command == "kill":
            for pid, job in self._children.items():
                if job == directory:
                    _kill_group(pid)

    def _fork(self, directory: str) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        # A collection in a child would write to (and so copy) every page that holds an object.
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            self._child(directory)
        self._forked = True
        self._children[pid] = directory
        self._send(f"started {directory} {pid}")

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            directory = self._children.pop(pid, "")
            if not directory:
                continue
            # What the program left running (its own children) ends with it.
            _kill_group(pid)
            self._send(f"exited {directory} {os.waitstatus_to_exitcode(status)}")

    def _send(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(line.encode() + b"\n")

    def _child(self, directory: str) -> None:
        status = 70
        try:
            os.setsid()
            die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(self._wake)
            self._socket.close()
            from gbfix.worker.job import run_job

            status = run_job(directory)
        except BaseException:
            with (
                contextlib.suppress(OSError),
                open(os.path.join(directory, "internal"), "w") as file,
            ):
                file.write(traceback.format_exc())
        finally:
            os._exit(status)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
