"""Talks to the workers: starts the fork server, runs jobs in it, and survives whatever they do.

A crash, ``os._exit``, a hang, too much memory or output of the user's program each end in an
`Outcome` with a reason; the process group of a job is killed as a whole.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from gbfix.worker import fileguard
from gbfix.worker import resident as resident_names
from gbfix.worker.protocol import (
    IN_VAIN,
    VAIN,
    Apart,
    Failed,
    Finished,
    Job,
    Outcome,
    doing,
    read_events,
)

#: Output beyond this ends the program: a report is of no use to a flooded disk.
OUTPUT_LIMIT = 256 * 1024 * 1024
#: How long a program may go on once every region seen has had its calls (a floor, in seconds;
#: it gets at least half of the time that it has run so far).
GRACE = 3.0
#: Seconds that a candidate has at the first recorded call before it is tried at the others, too.
_PATIENCE = 0.3

# ``-c`` puts the current folder first on the path, where a user's torch.py could hide torch.
_BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; "
    "from gbfix.worker.zygote import main; main(int(sys.argv[1]))"
)


class WorkerError(Exception):
    """The fork server itself failed (torch missing or broken)."""


@dataclasses.dataclass(frozen=True)
class Resident:
    """A process that a golden run left at a recorded call, ``after`` so many seconds."""

    key: str
    index: int
    golden: str
    after: float
    pid: int


@dataclasses.dataclass
class _Running:
    done: threading.Event
    pid: int = 0
    status: int | None = None


class Runner:
    """A fork server and the jobs in it.  Use as a context manager; safe to call from threads."""

    def __init__(self, *, python: str = sys.executable, keep: bool = False) -> None:
        self._python = python
        self._keep = keep
        self._running: dict[str, _Running] = {}
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._broken = ""
        self._count = 0
        self._wrote = False
        self.torch_version = ""
        self.directory = tempfile.mkdtemp(prefix="gbfix-")
        ours, theirs = socket.socketpair()
        self._guards = [os.path.join(self.directory, "files-0")]
        self._residents = os.path.join(self.directory, resident_names.FOLDER)
        os.mkdir(self._residents)
        os.mkfifo(os.path.join(self.directory, resident_names.ALIVE))
        # Residents end when this end of the pipe is closed, be it by our death.
        self._alive = os.open(os.path.join(self.directory, resident_names.ALIVE), os.O_RDWR)
        self._socket = ours
        # What no program has written to is the same in every run then (glibc): tensors of
        # `torch.empty` that nobody fills would differ from process to process.
        environment = {"MALLOC_PERTURB_": "85", **os.environ}
        # The server's own log of torch must not depend on the user's debugging variables.
        with theirs:
            self._log = Path(self.directory, "server.log")
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [python, "-c", _BOOT, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env=environment,
                )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every job and the server, and remove the runner's files."""
        for running in list(self._running.values()):
            # A job leads a session of its own: its group holds what the program started, too.
            if running.pid and not running.done.is_set():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(running.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        # Killed rather than asked: it may be deep in an import, and holds nothing worth keeping.
        # Its children asked the kernel to die with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.release()
        with contextlib.suppress(OSError):
            os.close(self._alive)
        self.restore_files()
        if not self._keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    def wait_ready(self, timeout: float = 300.0) -> str:
        """Wait for the server; the version of torch.  Raises `WorkerError` if it cannot start."""
        if not self._ready.wait(timeout):
            self._broken = (
                self._broken or f"importing torch took over {timeout:g} s (a busy machine?)"
            )
        if self._broken:
            raise WorkerError(self._broken)
        return self.torch_version

    @property
    def is_broken(self) -> bool:
        """Whether the server has failed; no job can be run any more."""
        return bool(self._broken)

    def wrote_files(self) -> bool:
        """Whether jobs since the last `restore_files` changed files of the user."""
        return self._wrote or fileguard.touched(self._guards[-1])

    def restore_files(self) -> None:
        """Take back what the jobs wrote.  Call it while no job runs."""
        for folder in reversed(self._guards):
            fileguard.restore(folder)
        self._wrote = False

    def _take_back_files(self) -> None:
        """As `restore_files`, between two runs of one job, if it is the only one."""
        if not self._running and fileguard.touched(self._guards[-1]):
            self.restore_files()
            self._wrote = True

    def begin(self) -> None:
        """Files that processes of earlier jobs still write do not count for the jobs to come."""
        self.restore_files()
        self._guards.append(os.path.join(self.directory, f"files-{len(self._guards)}"))

    def new_directory(self, name: str) -> str:
        with self._lock:
            self._count += 1
            path = os.path.join(self.directory, f"{self._count:03d}-{name}")
        os.mkdir(path)
        return path

    def run(
        self,
        job: Job,
        timeout: float,
        *,
        stop_when: Callable[[], bool] | None = None,
    ) -> Outcome:
        """Run one job to its end (see `Outcome.ended`: ok, stopped, timeout, crash, ...).

        Work that could not be done in forks (`Apart`) is done here: the program runs once more for
        each piece, one run after the other, as they share an accelerator.
        """
        outcome, _ = self._run(job, timeout, stop_when)
        events: list[object] = []
        goes_on = True
        for event in outcome.events:
            if not isinstance(event, Apart):
                events.append(event)
            elif goes_on:
                if stop_when is not None and stop_when():
                    return dataclasses.replace(outcome, events=events, ended="cancelled")
                found, well = self._piece(job, event, timeout, stop_when)
                events += found
                # Nothing that the others could find would save a candidate.
                goes_on = well or job.mode != "candidate"
        return dataclasses.replace(outcome, events=events)

    def _piece(
        self, job: Job, piece: Apart, timeout: float, stop_when: Callable[[], bool] | None
    ) -> tuple[list[object], bool]:
        """Run the program up to a recorded call again, for one piece of work; what that found."""
        folder = self.new_directory(f"{job.mode}-{piece.name}")
        part = dataclasses.replace(job, directory=folder, only=piece, home=job.directory)
        self._take_back_files()
        outcome, status = self._run(part, timeout, stop_when)
        reached = piece in outcome.events
        events = outcome.events[outcome.events.index(piece) + 1 :] if reached else []
        well = (outcome.ended, status) == ("exit", 0)
        if not well and status != IN_VAIN and not any(isinstance(each, Failed) for each in events):
            what = f"{outcome.ended} {outcome.detail} while {doing(piece.name)}"
            if not reached:
                what = f"run again for {doing(piece.name)}, the program did not come to this call"
            kind = outcome.ended if outcome.ended in ("crash", "timeout") else "fork"
            events.append(Failed(kind, what, key=piece.key))
        return events, well

    def _run(
        self, job: Job, timeout: float, stop_when: Callable[[], bool] | None
    ) -> tuple[Outcome, int]:
        """One process of a job to its end; its exit status, too (below 0: a signal)."""
        self.wait_ready()
        job = dataclasses.replace(job, guard=self._guards[-1])
        Path(job.directory, "job").write_bytes(pickle.dumps(job, protocol=5))
        running = _Running(threading.Event())
        self._running[job.directory] = running
        self._send(f"fork {job.directory}")
        ended, detail = self._watch(job, running, timeout, stop_when)
        self._running.pop(job.directory, None)
        return self._collect(job, running, ended, detail), running.status or 0

    # -- jobs at a recorded call ---------------------------------------------------------------

    def residents(self, golden: str) -> list[Resident]:
        """The processes that a golden run left at its recorded calls, in their order."""
        found = []
        for path in Path(self._residents).glob("*.json"):
            with contextlib.suppress(OSError, ValueError, TypeError):
                about = Resident(**json.loads(path.read_text()))
                if about.golden == golden:
                    found.append(about)
        return sorted(found, key=lambda item: item.after)

    def ask(
        self,
        job: Job,
        residents: Sequence[Resident],
        timeout: float,
        *,
        stop_when: Callable[[], bool] = lambda: False,
    ) -> Outcome | None:
        """Have a job done at recorded calls; None where that is not possible.

        The events are those of a run from the start at these calls.  One that is over time has
        ended with ``timeout``; one that is not wanted any more, with ``dropped``.  Several threads
        may ask at a time.
        """
        job = dataclasses.replace(job, guard=self._guards[-1])
        Path(job.directory, "job").write_bytes(pickle.dumps(job, protocol=5))
        # Most candidates that fail do so at the first call, and the others would take its share.
        waiting = collections.deque(residents)
        asked: list[Resident] = []
        patience = _PATIENCE if job.mode == "candidate" else 0.0
        started = time.monotonic()
        wait = 0.002
        try:
            while True:
                late = time.monotonic() - started >= patience
                while waiting and (late or not asked or _over(job, asked[0])):
                    if os.path.exists(os.path.join(job.directory, VAIN)):
                        waiting.clear()
                        break
                    if not self._tell(waiting[0], job.directory):
                        return None
                    asked.append(waiting.popleft())
                if not waiting and all(_over(job, item) for item in asked):
                    break
                time.sleep(wait)
                wait = min(wait * 1.3, 0.03)
                if time.monotonic() - started > timeout:
                    return Outcome([], "timeout", f"{timeout:g} s")
                if stop_when():
                    return Outcome([], "dropped")
                if any(not _alive(item.pid) for item in residents):
                    return None
        finally:
            for item in asked:
                self._end_at(job, item)
        marks = [_mark(job, item) for item in asked]
        if any(mark.read_text() != "0" for mark in marks):
            return None
        events = list(read_events(os.path.join(job.directory, "events")))
        if any(isinstance(event, Failed) and event.kind == "swap" for event in events):
            return None
        return Outcome(events)

    def _tell(self, item: Resident, directory: str) -> bool:
        """Give a job to a process at a recorded call; whether it is there."""
        try:
            pipe = os.path.join(self._residents, f"{item.pid}.pipe")
            end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        with open(end, "wb", buffering=0) as file:
            file.write(directory.encode() + b"\n")
        return True

    def release(self) -> None:
        """End all residents."""
        for path in Path(self._residents).glob("*.pipe"):
            with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
                os.killpg(int(path.stem), signal.SIGKILL)
            for name in (path, path.with_suffix(".json")):
                name.unlink(missing_ok=True)

    def _end_at(self, job: Job, item: Resident) -> None:
        """End a job at a recorded call, if it is not over."""
        if _over(job, item):
            return
        with contextlib.suppress(OSError, ValueError):
            text = Path(job.directory, f"resident-{item.pid}.pid").read_text()
            os.killpg(int(text), signal.SIGKILL)

    # -- inside ------------------------------------------------------------------------------

    def _watch(
        self,
        job: Job,
        running: _Running,
        timeout: float,
        stop_when: Callable[[], bool] | None,
    ) -> tuple[str, str]:
        started = time.monotonic()
        satisfied: float | None = None
        wait = 0.005
        while not running.done.wait(wait):
            wait = min(wait * 1.5, 0.1)
            if self._broken:
                return "broken", self._broken
            now = time.monotonic()
            if now - started > timeout:
                self._end(job, running)
                return "timeout", f"{timeout:g} s"
            if stop_when is not None and stop_when():
                self._end(job, running)
                return "cancelled", ""
            size = _size(job.directory, "stdout") + _size(job.directory, "stderr")
            if size > OUTPUT_LIMIT:
                self._end(job, running)
                return "output", f"more than {OUTPUT_LIMIT // 2**20} MiB of output"
            if os.path.exists(os.path.join(job.directory, "satisfied")):
                satisfied = satisfied or now
                grace = max(GRACE, (satisfied - started) / 2)
                if now - satisfied > grace:
                    self._end(job, running)
                    return "stopped", "every region had its calls"
            else:
                satisfied = None
        return "exited", ""

    def _end(self, job: Job, running: _Running) -> None:
        self._send(f"kill {job.directory}")
        running.done.wait(5)

    def _collect(self, job: Job, running: _Running, ended: str, detail: str) -> Outcome:
        events = list(read_events(os.path.join(job.directory, "events")))
        finished = any(isinstance(event, Finished) for event in events)
        failed = any(isinstance(event, Failed) and not event.key for event in events)
        if ended == "exited" and failed:
            ended = "failed"
        elif ended == "exited":
            ended, detail = _how_it_ended(job, running.status or 0, finished)
        outcome = Outcome(events, ended, detail)
        for name in ("stdout", "stderr"):
            with (
                contextlib.suppress(FileNotFoundError),
                open(os.path.join(job.directory, name), "rb") as file,
            ):
                setattr(outcome, name, file.read(1024 * 1024))
        return outcome

    def _send(self, line: str) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(line.encode() + b"\n")

    def _read(self) -> None:
        buffer = b""
        while True:
            try:
                chunk = self._socket.recv(65536)
            except OSError:
                chunk = b""
            if not chunk:
                break
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                self._handle(line.decode())
        if not self._ready.is_set() and not self._broken:
            self._broken = f"the worker ended before it was ready. {self._tail()}".strip()
        elif not self._broken:
            self._broken = "the worker ended unexpectedly"
        self._ready.set()
        for running in list(self._running.values()):
            running.done.set()

    def _handle(self, line: str) -> None:
        command, _, rest = line.partition(" ")
        if command == "ready":
            self.torch_version = rest
            self._ready.set()
        elif command == "broken":
            self._broken = rest
            self._ready.set()
        else:
            directory, _, number = rest.rpartition(" ")
            running = self._running.get(directory)
            if running is None:
                return
            if command == "started":
                running.pid = int(number)
            elif command == "exited":
                running.status = int(number)
                running.done.set()

    def _tail(self) -> str:
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""


def _mark(job: Job, item: Resident) -> Path:
    """The file that tells of the end of a job at a recorded call, and how it ended."""
    return Path(job.directory, f"resident-{item.pid}.done")


def _over(job: Job, item: Resident) -> bool:
    return _mark(job, item).exists()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _size(directory: str, name: str) -> int:
    try:
        return os.stat(os.path.join(directory, name)).st_size
    except OSError:
        return 0


def _how_it_ended(job: Job, status: int, finished: bool) -> tuple[str, str]:
    if finished:
        return "ok", ""
    internal = Path(job.directory, "internal")
    if internal.exists():
        return "internal", internal.read_text()
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return "crash", name
    return "exit", str(status)


__all__ = ["Runner", "WorkerError"]
