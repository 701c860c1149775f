"""Work that is done in forks of a worker: whatever it changes, the user's program does not see.

Where a fork would not be what it was forked from (an accelerator is in use, or a process group),
the program runs again for each piece of work, up to the same call, and ends with it: see
`gbfix.runner.Runner.run`.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import torch

from gbfix.worker import fileguard
from gbfix.worker.protocol import IN_VAIN, Apart, EventWriter, Failed, Job, doing
from gbfix.worker.values import qualified
from gbfix.worker.zygote import die_with_parent


def cannot_fork() -> bool:
    """Whether this process has what its forks would lack: a GPU in use, a process group."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return True
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return True
    if torch.backends.mps.is_available():
        return True
    xpu = getattr(torch, "xpu", None)
    return xpu is not None and bool(xpu.is_initialized())


class Forks:
    """Forks of a job's process, or what stands in for them; their output goes to its folder."""

    def __init__(
        self, job: Job, writer: EventWriter, watch: fileguard.Watch, ignored: tuple[str, ...]
    ) -> None:
        self._directory = job.directory
        self._only = job.only
        self._writer = writer
        self._watch = watch
        self._ignored = ignored
        self._asked: collections.Counter[tuple[str, int]] = collections.Counter()
        self._key = ""
        #: Whether one ended with `IN_VAIN`.
        self.vain = False
        #: Whether this process is one of them.
        self.inside = False
        self._ahead = -1

    def run(
        self,
        key: str,
        index: int,
        work: Sequence[tuple[str, Callable[[], None]]],
        patience: float = 0.0,
    ) -> bool:
        """Run each piece of work at a recorded call in a process of its own; whether all went well.

        With ``patience``, the first has so many seconds to end or `go_ahead` before the others
        begin.  What cannot be done in a fork is asked for (`Apart`), and taken to go well.
        """
        self._key = key
        if cannot_fork():
            for name, action in work:
                number = self._asked[key, index]
                self._asked[key, index] += 1
                piece = Apart(key, index, number, name)
                if self._only is None:
                    self._writer.write(piece)
                elif self._only == piece:
                    self._writer.write(piece)
                    self._in_fork(name, action)
            return True
        return self._forked(work, patience)

    def go_ahead(self) -> None:
        """Said by the first of several: what would have ended them all has not happened."""
        if self._ahead >= 0:
            with contextlib.suppress(OSError):
                os.write(self._ahead, b"1")
            self._ahead = -1

    def _forked(self, work: Sequence[tuple[str, Callable[[], None]]], patience: float) -> bool:
        children: dict[int, str] = {}
        folders = []
        for name, action in work:
            waits = patience > 0 and not children and len(work) > 1
            ready, self._ahead = os.pipe() if waits else (-1, -1)
            pid = os.fork()
            if pid == 0:
                self._in_fork(name, action)
            children[pid] = name
            folders.append(self._folder(pid))
            # Most candidates that fail do so here, and the others would take its share.
            if waits and self._ended_in_vain(pid, ready, patience):
                break
        well = True
        while children:
            pid, status = os.wait()
            name = children.pop(pid, "")
            code = os.waitstatus_to_exitcode(status)
            if not name:
                continue
            if code == IN_VAIN:
                # Nothing that the others could find would save this candidate.
                self.vain = True
                for other in children:
                    os.kill(other, signal.SIGKILL)
            elif code < 0 and not self.vain:
                what = f"{signal.Signals(-code).name} while {doing(name)}"
                self._writer.write(Failed("crash", what, key=self._key))
            well = well and code == 0
        # What was tried wrote files: the program, which goes on now, must not find them.
        for folder in folders:
            fileguard.restore(folder)
        return well

    def _ended_in_vain(self, pid: int, ready: int, patience: float) -> bool:
        """Whether a child ended so before it said `go_ahead`; it is left to be waited for."""
        os.close(self._ahead)
        self._ahead = -1
        try:
            if not select.select([ready], [], [], patience)[0] or os.read(ready, 1):
                return False
        finally:
            os.close(ready)
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return ended is not None and (ended.si_code, ended.si_status) == (os.CLD_EXITED, IN_VAIN)

    def _folder(self, pid: int) -> str:
        return os.path.join(self._directory, f"fork-{pid}-files")

    def _in_fork(self, name: str, action: Callable[[], None]) -> NoReturn:
        """Runs the action and leaves the process at once."""
        self.inside = True
        status = 1
        try:
            die_with_parent()
            guard = fileguard.FileGuard(self._folder(os.getpid()), self._ignored)
            self._watch.guards.append(guard)
            # The pool of OpenMP threads did not survive the fork: one thread needs no pool.
            torch.set_num_threads(1)
            for fd in (1, 2):
                path = os.path.join(self._directory, f"fork-{os.getpid()}-{fd}")
                target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC)
                os.dup2(target, fd)
                os.close(target)
            action()
            status = 0
        except BaseException as error:
            text = "".join(traceback.format_exception(error))
            with contextlib.suppress(BaseException):
                self._writer.write(
                    Failed("fork", f"{name}: {qualified(type(error))}: {error}", traceback=text,
                           key=self._key)
                )  # fmt: skip
        finally:
            os._exit(status)
