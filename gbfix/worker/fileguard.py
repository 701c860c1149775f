"""Keeps the user's files as they were: what a watched program writes is taken back afterwards.

A program is run many times, and on inputs that its author never gave it; its logs and checkpoints
must not show that.  Before a file is written, renamed or removed for the first time, a copy goes
into a folder together with a line in a manifest; `restore` puts everything back.  Guards nest: one
for the whole session of gbfix, one for each fork within a run.

Seen are Python's own audit events and `torch.save`; files that other extension modules write by
themselves are not (a copy cannot be made in time).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import sys
import time
from types import FrameType
from typing import Any

_MANIFEST = "manifest"
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SYSTEM = ("/dev/", "/proc/", "/sys/")
#: Copying more than this for one file would cost more than it saves.
_MAX_BYTES = 4 * 2**30
#: Seconds to wait for a copy that another process makes.
_PATIENCE = 60.0


class FileGuard:
    """Copies files into ``folder`` before they change; the first copy of each path counts."""

    def __init__(self, folder: str, ignore: tuple[str, ...]) -> None:
        self._folder = folder
        self._ignore = tuple(os.path.realpath(path) for path in ignore)
        self._seen: set[str] = set()

    def note(self, path: str) -> None:
        """The file at ``path`` is about to change (or to appear, or to go)."""
        real = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))
        if real in self._seen or real.startswith(_SYSTEM) or "torchinductor" in real:
            return
        if any(real == item or real.startswith(item + os.sep) for item in self._ignore):
            return
        if f"{os.sep}__pycache__{os.sep}" in real:
            return
        self._seen.add(real)
        os.makedirs(self._folder, exist_ok=True)
        name = real.replace("%", "%25").replace(os.sep, "%2F")[-200:] + f".{len(real)}"
        copy = os.path.join(self._folder, name)
        claim = f"{copy}.claim"
        done = f"{copy}.done"
        try:
            # Processes side by side: whoever makes this file makes the copy.
            handle = os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            # The file must not change before the copy is whole.
            if _is_there(done, claim):
                return
        else:
            os.write(handle, str(os.getpid()).encode())
            os.close(handle)
        try:
            kind = self._copy(real, copy)
            if kind:
                self._record({"path": real, "kind": kind, "copy": copy})
        finally:
            # Others wait for this word, also where no copy could be made.
            with open(done, "w"):
                pass

    def _copy(self, real: str, copy: str) -> str:
        try:
            about = os.lstat(real)
        except OSError:
            return "new"
        if stat.S_ISLNK(about.st_mode):
            os.symlink(os.readlink(real), copy)
            return "link"
        if stat.S_ISDIR(about.st_mode):
            return "folder"
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MAX_BYTES:
            return ""
        shutil.copy2(real, copy)
        return "file"

    def _record(self, entry: dict[str, str]) -> None:
        line = json.dumps(entry) + "\n"
        with open(os.path.join(self._folder, _MANIFEST), "ab", buffering=0) as file:
            file.write(line.encode())


def _is_there(done: str, claim: str) -> bool:
    """Wait for another process that makes a copy; False where it has ended without."""
    until = time.monotonic() + _PATIENCE
    while not os.path.exists(done):
        with contextlib.suppress(OSError, ValueError), open(claim) as file:
            if not _lives(int(file.read())):
                return os.path.exists(done)
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


def _lives(pid: int) -> bool:
    """Whether a process runs: one that has ended answers signals until its parent looks."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True  # of a system without such files, or another user's


class Watch:
    """The audit hook of a process: tells every active guard of coming changes."""

    def __init__(self) -> None:
        self.guards: list[FileGuard] = []
        self._busy = False

    def install(self) -> None:
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self._busy or not self.guards:
            return
        paths = changed_paths(event, args)
        if not paths or tries_temporary_folder(sys._getframe(1)):
            return
        self._busy = True
        try:
            for path in paths:
                for guard in self.guards:
                    with contextlib.suppress(OSError):
                        guard.note(path)
        finally:
            self._busy = False


def changed_paths(event: str, args: tuple[Any, ...]) -> list[str]:
    """The paths that an audit event is about to change; empty for one that changes none."""
    if event == "open":
        path, mode, flags = args
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else False
        if not writes and not (not isinstance(mode, str) and (flags or 0) & _WRITE_FLAGS):
            return []
        return [os.fsdecode(path)] if isinstance(path, str | bytes) else []
    if event in ("os.remove", "os.rmdir"):
        return _named(args[0], args[1])
    if event == "os.mkdir":
        return _named(args[0], args[2])
    if event == "os.rename":
        return [*_named(args[0], args[2]), *_named(args[1], args[3])]
    if event in ("os.link", "os.symlink"):
        return _named(args[1], args[-1])
    if event in ("os.truncate", "os.chmod", "os.utime"):
        return _named(args[0], -1)
    return []


def tries_temporary_folder(frame: FrameType | None) -> bool:
    """Whether `tempfile` looks which folder it may write to: a file that is gone at once."""
    code = frame.f_code if frame is not None else None
    return code is not None and code.co_name == "_get_default_tempdir"


def _named(path: Any, folder: Any) -> list[str]:
    """A path of an event, relative to an open folder where one is given."""
    if not isinstance(path, str | bytes):
        return []
    text = os.fsdecode(path)
    if isinstance(folder, int) and folder >= 0 and not os.path.isabs(text):
        with contextlib.suppress(OSError):
            return [os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)]
    return [os.path.abspath(text)]


def touched(folder: str) -> bool:
    """Whether a guard of this folder has noted anything that is not taken back yet."""
    return os.path.exists(os.path.join(folder, _MANIFEST))


def restore(folder: str) -> None:
    """Put back everything that a guard of this folder noted, latest first; safe to repeat."""
    manifest = os.path.join(folder, _MANIFEST)
    try:
        with open(manifest, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        with contextlib.suppress(OSError):
            _put_back(entry["path"], entry["kind"], entry["copy"])
    shutil.rmtree(folder, ignore_errors=True)


def _put_back(path: str, kind: str, copy: str) -> None:
    if kind == "folder":
        os.makedirs(path, exist_ok=True)
        return
    if kind == "new":
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        elif os.path.lexists(path):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if kind == "link":
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(os.readlink(copy), path)
        return
    if os.path.isfile(path) and not os.path.islink(path):
        # In place: hard links and open descriptors keep pointing at the user's file.
        with open(copy, "rb") as source, open(path, "r+b") as target:
            shutil.copyfileobj(source, target)
            target.truncate()
    else:
        shutil.copyfile(copy, path)
    shutil.copystat(copy, path)
