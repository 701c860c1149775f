"""Around the user's program: what a worker changes of its process, and how an error is told."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import traceback
from typing import Any

import torch

from gbfix.worker.protocol import Failed
from gbfix.worker.values import Project


def announce_saves() -> None:
    """torch.save opens its file in C++: raise the audit event that Python's own open raises."""
    writer: Any = getattr(torch.serialization, "_open_zipfile_writer_file", None)
    if writer is None:
        return
    original = writer.__init__

    def announced(self: Any, name: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(name, str | os.PathLike):
            sys.audit("open", os.fspath(name), "wb", 0)
        original(self, name, *args, **kwargs)

    writer.__init__ = announced


def limit_memory(limit: int) -> None:
    """Allow ``limit`` more bytes of address space than the process has now."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (now + limit, now + limit))


def failure(error: BaseException, project: Project) -> Failed:
    """The program's own exception, with the traceback that plain python would print."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if f"{os.sep}gbfix{os.sep}worker{os.sep}" not in frame.filename
    ]
    text = "Traceback (most recent call last):\n" + "".join(traceback.format_list(frames))
    text += "".join(traceback.format_exception_only(error))
    if not frames:
        text = "".join(traceback.format_exception_only(error))
    place = next((f for f in reversed(frames) if project.owns(f.filename)), None)
    path, line = (place.filename, place.lineno or 0) if place else ("", 0)
    if isinstance(error, SyntaxError) and error.filename:
        path, line = error.filename, error.lineno or 0
    kind = "eager-error"
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        kind = "memory"
    if isinstance(error, KeyboardInterrupt):
        kind = "interrupted"
    last = traceback.format_exception_only(error)[-1].strip()
    return Failed(kind, last, path, line, text)
