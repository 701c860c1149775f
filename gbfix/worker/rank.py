"""One rank under a real launcher: the user's program with patched texts, and how it went.

    python -m torch.distributed.run ... -m gbfix.worker.rank

``GBFIX_RANK`` names a file with a `Spec`.  What each rank prints, its exit status and torch's trace
(which holds its graph breaks) go to a folder of its own below ``Spec.folder``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import sys
import traceback

from gbfix.worker.protocol import Spec

#: Names of files in a rank's folder.
STATUS, OUT, ERR, TRACE, PID = "status", "stdout", "stderr", "trace", "pid"
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the program as this rank; its exit status."""
    with open(os.environ.pop("GBFIX_RANK"), "rb") as file:
        spec: Spec = pickle.load(file)
    place = os.path.join(spec.folder, f"rank_{os.environ.get('RANK', '0')}")
    os.makedirs(place)
    _lead(place)
    os.environ["TORCH_TRACE"] = os.path.join(place, TRACE)
    for fd, name in ((1, OUT), (2, ERR)):
        target = os.open(os.path.join(place, name), os.O_WRONLY | os.O_CREAT)
        os.dup2(target, fd)
        os.close(target)
    words = sys.argv[1:]  # `torch.distributed.launch` adds one: it takes the place of ours
    status = _run(spec, tuple(words))
    _write(os.path.join(place, STATUS), str(status))
    return status


def _run(spec: Spec, words: tuple[str, ...]) -> int:
    import dataclasses
    import random

    import numpy as np
    import torch

    from gbfix.worker import fileguard, overlay, prepare, program

    random.seed(spec.seed)
    np.random.seed(spec.seed)
    torch.manual_seed(spec.seed)
    sys.dont_write_bytecode = True
    served = overlay.Overlay(spec.overlay, (), lambda tree, looks: tree)
    overlay.install(served)
    prepare.announce_saves()
    watch = fileguard.Watch()
    watch.guards.append(fileguard.FileGuard(spec.guard, (spec.folder,)))
    watch.install()
    target = dataclasses.replace(spec.target, environment=())
    if words:
        target = dataclasses.replace(target, args=(*words, *target.args[len(words) :]))
    sys.modules.pop("__main__", None)
    sys.path.pop(0)  # the working folder, as we are a module: a script has its own folder there
    try:
        return program.run_program(target, served, 1)
    except BaseException:
        sys.stdout.flush()
        traceback.print_exc()
        return 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()


def _lead(place: str) -> None:
    """A session of our own, which ends with the launcher."""
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _write(os.path.join(place, PID), str(os.getpid()))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
