"""The engine, in a process of its own: ``python -m gbfix.lsp.engine_process``.

The server's process stays small and quick while codemods (anybody's) and LibCST work here, and a
run that is no longer wanted can be ended for certain.  The fork server stays warm between runs.
Requests and replies are pickles behind their length, on what were stdin and stdout; SIGINT ends
the present run, a closed stdin the process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import shutil
import signal
import struct
import sys
from pathlib import Path
from typing import IO, Any

from gbfix.changes import Change
from gbfix.schema import Options, Report, Target
from gbfix.verification import Verification

_LENGTH = struct.Struct("!Q")


@dataclasses.dataclass(frozen=True)
class Request:
    """One run of the engine; with a ``change``, the verdict on that."""

    target: Target
    options: Options
    change: Change | None = None


@dataclasses.dataclass(frozen=True)
class Progress:
    text: str


@dataclasses.dataclass(frozen=True)
class Done:
    """The end of a run: what came out, or None with ``problem`` (empty when it was cancelled)."""

    report: Report | Verification | None
    problem: str = ""


def send(stream: IO[bytes], message: object) -> None:
    data = pickle.dumps(message, protocol=5)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """The next message; raises `EOFError` when the other side has gone."""
    head = _exactly(stream, _LENGTH.size)
    return pickle.loads(_exactly(stream, _LENGTH.unpack(head)[0]))


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.read(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


class _Worker:
    def __init__(self, replies: IO[bytes]) -> None:
        self._replies = replies
        self._stack = contextlib.ExitStack()
        self._runner: Any = None

    def close(self) -> None:
        self._runner = None
        self._stack.close()

    def run(self, request: Request) -> Done:
        from gbfix import engine
        from gbfix.runner import Runner

        try:
            if self._runner is None:
                self._runner = self._stack.enter_context(Runner())

            def say(text: str) -> None:
                send(self._replies, Progress(text))

            report: Report | Verification
            if request.change is not None:
                from gbfix import verify

                report = verify.verify(
                    request.target, request.options, request.change, say, self._runner
                )
            else:
                report = engine.run(request.target, request.options, say, self._runner)
        except KeyboardInterrupt:
            self.close()
            return Done(None)
        except Exception as error:
            self.close()
            what = " ".join(f"{type(error).__name__}: {error}".split())
            return Done(None, f"internal error: {what}; this is a bug in gbfix")
        if any(error.kind == "worker" for error in report.errors):
            self.close()
        else:
            # Recorded tensors of finished jobs; the runner itself keeps them for its whole life.
            for folder in Path(self._runner.directory).glob("[0-9]*-*"):
                shutil.rmtree(folder, ignore_errors=True)
        return Done(report)


def main() -> None:
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    # Nobody else may read from or write to the channel: a codemod that prints must do no harm.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    worker = _Worker(replies)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            try:
                request = receive(requests)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                try:
                    done = worker.run(request)
                finally:
                    signal.signal(signal.SIGINT, signal.SIG_IGN)
                send(replies, done)
            except (EOFError, BrokenPipeError):
                return
            except KeyboardInterrupt:
                send(replies, Done(None))
    finally:
        worker.close()


if __name__ == "__main__":
    # By its real name, so that both sides pickle the same classes.
    from gbfix.lsp import engine_process

    engine_process.main()
