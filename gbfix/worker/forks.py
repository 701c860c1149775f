"""Work that is done in forks of a worker: whatever it changes, the user's program does not see."""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import torch

from gbfix.worker import fileguard
from gbfix.worker.protocol import EventWriter, Failed
from gbfix.worker.values import qualified
from gbfix.worker.zygote import die_with_parent

#: Exit status of a fork that found the break which the candidate was to remove.
IN_VAIN = 3
_DOING = {
    "eager": "running it eagerly on varied inputs",
    "trace": "tracing it",
    "facts": "recording facts",
    "aot_eager": "compiling it with aot_eager",
    "inductor": "compiling it with inductor",
}


class Forks:
    """Forks for one recorded call of the region ``key``; their output goes to ``directory``."""

    def __init__(
        self,
        directory: str,
        writer: EventWriter,
        watch: fileguard.Watch,
        ignored: tuple[str, ...],
        key: str,
    ) -> None:
        self._directory = directory
        self._writer = writer
        self._watch = watch
        self._ignored = ignored
        self._key = key
        #: Whether one ended with `IN_VAIN`.
        self.vain = False

    def run(self, work: Sequence[tuple[str, Callable[[], None]]]) -> bool:
        """Run each piece of work in a fork of its own, side by side; whether all ended well."""
        children: dict[int, str] = {}
        for name, action in work:
            pid = os.fork()
            if pid == 0:
                self._in_fork(name, action)
            children[pid] = name
        folders = [self._folder(pid) for pid in children]
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
                what = f"{signal.Signals(-code).name} while {_DOING.get(name, name)}"
                self._writer.write(Failed("crash", what, key=self._key))
            well = well and code == 0
        # What was tried wrote files: the program, which goes on now, must not find them.
        for folder in folders:
            fileguard.restore(folder)
        return well

    def _folder(self, pid: int) -> str:
        return os.path.join(self._directory, f"fork-{pid}-files")

    def _in_fork(self, name: str, action: Callable[[], None]) -> NoReturn:
        """Runs the action and leaves the process at once."""
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
