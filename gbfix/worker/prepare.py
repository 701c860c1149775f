"""What a worker changes of its process before the user's program starts."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import Any

import torch


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
