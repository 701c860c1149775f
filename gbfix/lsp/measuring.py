"""Asks the engine for reports without waiting for it: one run at a time, cancellable."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from gbfix.changes import Change
from gbfix.lsp.engine_process import Done, Progress, Request, receive, send
from gbfix.schema import Options, Report, Target
from gbfix.verification import Verification

#: How long a cancelled run may take to put the user's files back before it is killed.
_GRACE = 5.0


class MeasureError(Exception):
    """The engine itself failed; one line."""


class Cancelled(Exception):
    """The run was ended on request."""


class Measuring:
    """The engine's process.  It starts with the first run and goes when it has been idle long."""

    def __init__(self, idle_seconds: float = 600.0) -> None:
        self.idle_seconds = idle_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    @property
    def warm(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def run(
        self,
        target: Target,
        options: Options,
        progress: Callable[[str], None],
        cancel: asyncio.Event,
    ) -> Report:
        """One run.  Raises `Cancelled` or `MeasureError`."""
        report: Report = await self._shielded(Request(target, options), progress, cancel)
        return report

    async def verify(
        self,
        target: Target,
        options: Options,
        change: Change,
        progress: Callable[[str], None],
        cancel: asyncio.Event,
    ) -> Verification:
        """The verdict on a change.  Raises `Cancelled` or `MeasureError`."""
        found: Verification = await self._shielded(
            Request(target, options, change), progress, cancel
        )
        return found

    async def _shielded(
        self, request: Request, progress: Callable[[str], None], cancel: asyncio.Event
    ) -> Any:
        # Whoever waits may be cancelled; what was begun with the process is brought to its end, or
        # the next run would read this one's replies.
        task = asyncio.ensure_future(self._in_turn(request, progress, cancel))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            cancel.set()
            raise

    async def _in_turn(
        self, request: Request, progress: Callable[[str], None], cancel: asyncio.Event
    ) -> Any:
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            if cancel.is_set():
                raise Cancelled
            try:
                return await self._run(request, progress, cancel)
            finally:
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(self.idle_seconds, self.close)

    async def _run(
        self, request: Request, progress: Callable[[str], None], cancel: asyncio.Event
    ) -> Any:
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        loop = asyncio.get_running_loop()
        stop = asyncio.ensure_future(cancel.wait())
        try:
            send(process.stdin, request)
            while True:
                reply = loop.run_in_executor(None, receive, process.stdout)
                await asyncio.wait({reply, stop}, return_when=asyncio.FIRST_COMPLETED)
                if not reply.done():
                    stop = asyncio.ensure_future(asyncio.Event().wait())
                    process.send_signal(signal.SIGINT)
                    await asyncio.wait({reply}, timeout=_GRACE)
                    if not reply.done():
                        self._kill()
                message = await reply
                if isinstance(message, Progress):
                    progress(message.text)
                elif isinstance(message, Done):
                    if message.report is None and not message.problem:
                        raise Cancelled
                    if message.report is None:
                        raise MeasureError(message.problem)
                    return message.report
        except (EOFError, OSError) as error:
            self._kill()
            if cancel.is_set():
                raise Cancelled from error
            raise MeasureError("the engine's process ended unexpectedly") from error
        finally:
            stop.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            # ``-P``: the folder that the editor was started in must not provide modules.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gbfix.lsp.engine_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        """End the process; files that a run wrote are put back first."""
        if self._idle is not None:
            self._idle.cancel()
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
