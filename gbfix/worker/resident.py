"""A process that stays where the program stood at a recorded call, to try things there.

The golden run forks one at each recorded call.  It waits on a named pipe for folders of jobs and
forks a child for each, which swaps the job's texts in (`gbfix.worker.swap`) and does what a run
from the start would do at this call.  It ends when the runner does, which holds the other end of
the pipe ``alive``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable

from gbfix.worker.zygote import die_with_parent

#: Seconds to the first recorded call beyond which a start of the program is worth avoiding.
HEAVY = 1.5
#: In the runner's folder: where residents tell of themselves, and the pipe that tells of its end.
FOLDER = "residents"
ALIVE = "alive"
#: A program with more recorded calls than this is run from the start every time.
MOST = 32
_PR_SET_PDEATHSIG = 1


def settle(
    folder: str,
    about: dict[str, object],
    work: Callable[[str], None],
    prepare: Callable[[str], None],
) -> None:
    """Leave a resident behind that calls ``work(directory)`` in a fork for each job.

    Before it forks, it calls ``prepare(directory)`` itself: what that reads need not be read again
    for the next job.  ``about`` is kept with its process number for the runner.  The caller goes on
    at once; the resident is no child of it (a program may wait for its children), and not of its
    session.
    """
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    try:
        if os.fork():
            os._exit(0)
        os.setsid()
        _live_on()
        _serve(folder, about, work, prepare)
    finally:
        os._exit(0)


def _live_on() -> None:
    """The golden run's end is not ours."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def _serve(
    folder: str,
    about: dict[str, object],
    work: Callable[[str], None],
    prepare: Callable[[str], None],
) -> None:
    alive = os.open(os.path.join(os.path.dirname(folder), ALIVE), os.O_RDONLY | os.O_NONBLOCK)
    name = os.path.join(folder, str(os.getpid()))
    os.mkfifo(f"{name}.pipe")
    # Open for writing, too: the pipe has no end while nobody asks.
    pipe = os.open(f"{name}.pipe", os.O_RDWR | os.O_NONBLOCK)
    with open(f"{name}.new", "w") as file:
        json.dump({**about, "pid": os.getpid()}, file)
    os.rename(f"{name}.new", f"{name}.json")
    poll = select.poll()
    poll.register(alive, select.POLLHUP)
    poll.register(pipe, select.POLLIN)
    buffer = b""
    running: dict[int, tuple[int, str]] = {}
    while True:
        events = dict(poll.poll())
        if alive in events:
            return
        for ended in events.keys() & running.keys():
            poll.unregister(ended)
            os.close(ended)
            _wait_for(*running.pop(ended))
        if pipe not in events:
            continue
        buffer += os.read(pipe, 65536)
        *jobs, buffer = buffer.split(b"\n")
        for directory in jobs:
            with contextlib.suppress(Exception):  # the job itself will say what is wrong with it
                prepare(directory.decode())
            pid, mark = _begin(directory.decode(), work)
            end = _descriptor_of(pid)
            if end is None:
                _wait_for(pid, mark)
                continue
            # The next job need not wait for this one.
            running[end] = pid, mark
            poll.register(end, select.POLLIN)


def _descriptor_of(pid: int) -> int | None:
    """What can be polled for the end of a process, where the system has that."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _begin(directory: str, work: Callable[[str], None]) -> tuple[int, str]:
    """Begin a job in a fork; its process, and the file that is to tell the runner of its end."""
    mark = os.path.join(directory, f"resident-{os.getpid()}")
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            os.setsid()
            die_with_parent()
            work(directory)
            status = 0
        except BaseException:
            with contextlib.suppress(OSError), open(f"{mark}.internal", "w") as file:
                file.write(traceback.format_exc())
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            os._exit(status)
    _write(f"{mark}.pid", str(pid))
    return pid, mark


def _wait_for(pid: int, mark: str) -> None:
    """Wait for a job's process, and tell the runner that it is over, and how."""
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what the program left running
    _write(f"{mark}.done", str(os.waitstatus_to_exitcode(status)))


def _write(path: str, text: str) -> None:
    """Make a file appear with its text in it.  The runner may have removed the folder."""
    with contextlib.suppress(OSError):
        with open(f"{path}.new", "w") as file:
            file.write(text)
        os.rename(f"{path}.new", path)
