"""Records what a call does besides computing: output, log records, warnings, files, processes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import fcntl
import hashlib
import logging
import os
import re
import stat as kinds
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from gbfix.worker import fileguard, zygote
from gbfix.worker.show import COMPILER, EVENTS, by_compiler, is_stdlib

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: What is done below one of these is not the program's, whoever called it.
_NEVER_THE_PROGRAM = (
    *COMPILER,
    # Copies of files that the program is about to change.
    f"{os.sep}gbfix{os.sep}worker{os.sep}fileguard.py",
)
#: What this does by itself is not the program's either, but it calls the program.
_AROUND_THE_PROGRAM = f"{os.sep}gbfix{os.sep}worker{os.sep}"
#: Torch's own word on a number that is read from a tensor, once a process: many a patch is there to
#: do without the number.
_ABOUT_READING = "Converting a tensor with requires_grad=True to a scalar may lead"
#: Dynamo traces arrays of numpy as tensors: its graph makes a tensor of a tensor where the program
#: makes one of an array.
_GRAPH_CODE = "<eval_with_key>"
_ABOUT_COPYING = "To copy construct from a tensor, it is recommended"
_MAX_FILES = 2000
#: How long a folder is watched for files that others write.
_QUIET_SECONDS = 0.25
_MAX_HASHED = 64 * 1024 * 1024
#: Up to what size a file that the program keeps open is read before each call.
_MAX_COMPARED = 1024 * 1024


@dataclasses.dataclass
class Effects:
    """What one call did.  ``files`` maps names of changed files to a digest of what they hold."""

    stdout: str = ""
    stderr: str = ""
    logs: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    warnings: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    events: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Kinds of effect in the order in which they happened, each with how much stdout came before.
    order: list[tuple[str, int]] = dataclasses.field(default_factory=list)

    @property
    def writes_files(self) -> bool:
        return bool(self.files) or any(name != "os.fork" for name, _ in self.events)


@dataclasses.dataclass(frozen=True)
class _Held:
    """A file that the program has opened to write, before a call.

    Where it was put back to a shorter text between calls, and the program has it open, what it
    writes next begins where it had been, behind a ``hole`` of so many zeros.
    """

    size: int
    digest: str
    hole: int


class EffectRecorder:
    """Installed once in a child, before the user's program; `watch` records one call."""

    def __init__(self, ignore: tuple[str, ...]) -> None:
        self._ignore = tuple(os.path.realpath(path) for path in ignore)
        self._current: Effects | None = None
        #: Files that Python code of this process has opened for writing.
        self._opened: set[str] = set()
        #: Files that it only adds to; the ones that a watched call opened in another way.
        self._appended: set[str] = set()
        self._rewritten: set[str] = set()
        #: Files that the program has opened for writing, wherever they are.
        self._programs: set[str] = set()
        self._start = 0
        #: Whether a watched call has written files: then times of files must be told apart.
        self.writes_files = False

    def install(self) -> None:
        """Hook logging, warnings and audit events for the rest of the process."""
        sys.addaudithook(self._audit)
        logger_class: Any = logging.Logger
        handle = logger_class.handle

        def recording_handle(logger: logging.Logger, record: logging.LogRecord) -> None:
            self._log(logger, record)
            handle(logger, record)

        logger_class.handle = recording_handle
        self._show = warnings.showwarning
        warnings.showwarning = self._warn

    @contextlib.contextmanager
    def watch(self, *, files: bool = True) -> Iterator[Effects]:
        """Record what happens inside the block (output is read from the redirected files).

        Listing the working folder costs more than most calls: ``files`` asks for it, and it is
        done in any case once a call has written there.
        """
        effects = Effects()
        self._flush()
        files = files or self.writes_files
        if self.writes_files:
            _let_clock_tick(".")
        before = self._files() if files else {}
        held = self._held(before)
        self._rewritten.clear()
        out, err = _position(1), _position(2)
        self._start = out
        outer, self._current = self._current, effects
        try:
            yield effects
        finally:
            self._current = outer
            self._flush()
            effects.stdout = _read_from(1, out)
            effects.stderr = _TORCH_LOG.sub("", _read_from(2, err))
            if files:
                ignored = (*self._ignore, *_machine_folders())
                grown = {
                    real: old.hole
                    for real, old in held.items()
                    if real not in self._rewritten and _digest(real, 0, old.size) == old.digest
                }
                appended = (self._appended | grown.keys()) - self._rewritten
                effects.files = self._without_others(
                    _changed(before, self._files(), ignored, appended, grown), ignored
                )
                self.writes_files = self.writes_files or bool(effects.files)

    def _files(self) -> Listing:
        """The files in and below the working folder, and wherever this process has opened some."""
        found = dict(_listing("."))
        known = {os.path.realpath(path) for path in found}
        for real in sorted(self._programs - known)[:_MAX_FILES]:
            with contextlib.suppress(OSError):
                stat = os.stat(real)
                if not kinds.S_ISREG(stat.st_mode):
                    continue
                found[real] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
        return found

    def _held(self, listing: Listing) -> dict[str, _Held]:
        """The files that the program has opened to write before this call, as they are now.

        To one that it keeps open (a log, from its first line on), a call adds.
        """
        sizes = {os.path.realpath(path): stamp[0] for path, stamp in listing.items()}
        mine = {real for real in self._programs & sizes.keys() if sizes[real] <= _MAX_COMPARED}
        ends = _written_up_to() if mine else {}
        return {
            real: _Held(
                sizes[real],
                _digest(real, 0, sizes[real]),
                max(ends.get(real, 0) - sizes[real], 0),
            )
            for real in mine
        }

    def _without_others(self, files: dict[str, str], ignored: tuple[str, ...]) -> dict[str, str]:
        """The changed files without those that other processes write.

        A file that Python code of this process has opened, in a call or before all calls (a log),
        is its own.  Of one that nobody here was seen to open (C++ code opens files unseen) it is
        asked whether files go on changing in that folder while the program does nothing.
        """
        own = self._opened | self._programs
        unseen = {path for path in files if os.path.realpath(path) not in own}
        passing = {path for path in unseen if _is_temporary(path)}
        files = {path: digest for path, digest in files.items() if path not in passing}
        unseen -= passing
        if not unseen:
            return files
        before = _listing(".")
        time.sleep(_QUIET_SECONDS)
        busy = {os.path.dirname(path) for path in _changed(before, _listing("."), ignored)}
        return {
            path: digest
            for path, digest in files.items()
            if path not in unseen or os.path.dirname(path) not in busy
        }

    # -- hooks -------------------------------------------------------------------------------

    def _log(self, logger: logging.Logger, record: logging.LogRecord) -> None:
        effects = self._current
        if effects is None or logger.name.split(".")[0] == "torch":
            return
        try:
            text = record.getMessage()
        except Exception as error:
            text = f"<{type(error).__name__} while formatting {record.msg!r}>"
        if record.exc_info and record.exc_info[0] is not None:
            text += f" [{record.exc_info[0].__name__}]"
        effects.logs.append((record.name, record.levelname, text))
        self._note(effects, "log")

    def _warn(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        effects = self._current
        if effects is None:
            self._show(message, category, filename, lineno, file, line)
            return
        if f"{os.sep}torch{os.sep}" in filename and _raised_by_compiler():
            return
        if str(message).startswith(_ABOUT_READING):
            return
        if filename.startswith(_GRAPH_CODE) and str(message).startswith(_ABOUT_COPYING):
            return
        effects.warnings.append((category.__name__, str(message)))
        self._note(effects, "warning")

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        effects = self._current
        if event == "open":
            path, mode, flags = args
            if not _writes(mode, flags) or not isinstance(path, str | bytes):
                return
            name = place = os.fsdecode(path)
            real = os.path.realpath(name)
            if effects is not None:
                self._opened.add(real)
                (self._appended if _adds(mode) else self._rewritten).add(real)
            elif _adds(mode):
                self._appended.add(real)
        elif event in EVENTS and effects is not None:
            name, place = _what(event, args), str(args[0]) if args else ""
        else:
            return
        if self._uninteresting(place) or _raised_by_compiler():
            return
        if fileguard.tries_temporary_folder(sys._getframe(1)):
            return
        if event == "open" and (effects is not None or _asked_by_program()):
            self._programs.add(real)
        if effects is not None:
            effects.events.append((event, name))
            self._note(effects, event)

    def _note(self, effects: Effects, kind: str) -> None:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        effects.order.append((kind, max(_position(1) - self._start, 0)))

    def _uninteresting(self, name: str) -> bool:
        if name.startswith("/dev/") or "__pycache__" in name or "torchinductor" in name:
            return True
        real = os.path.realpath(name) if name else ""
        return _is_below(real, (*self._ignore, *_machine_folders()))

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                stream.flush()  # type: ignore[union-attr]


def _writes(mode: object, flags: int | None) -> bool:
    """Whether a file is opened to be written, too."""
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool((flags or 0) & _WRITE_FLAGS)


def _what(event: str, args: tuple[Any, ...]) -> str:
    """What an event is about: a file, or two; a command with what it is given."""
    if event == "subprocess.Popen" and isinstance(args[1], list | tuple):
        return " ".join(map(str, args[1]))
    both = event.rpartition(".")[2] in ("rename", "link", "symlink", "move", "copyfile")
    return " ".join(map(str, args[: 2 if both else 1]))


def _raised_by_compiler() -> bool:
    return by_compiler(sys._getframe(2), _NEVER_THE_PROGRAM, _AROUND_THE_PROGRAM)


def _asked_by_program() -> bool:
    """Whether the innermost code outside the standard library is not gbfix's own."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<frozen") and not is_stdlib(name):
            return _AROUND_THE_PROGRAM not in name
        frame = frame.f_back  # type: ignore[assignment]
    return False


#: Where compilers and libraries keep what they made: variables that name folders.
_CACHES = (
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "TORCH_COMPILE_DEBUG_DIR",
    "TORCH_TRACE",
    "TORCH_LOGS_OUT",
    "TORCH_EXTENSIONS_DIR",
    "XDG_CACHE_HOME",
    "CCACHE_DIR",
)


def _machine_folders() -> tuple[str, ...]:
    """Folders of the machine's own: what is written there is no effect of the program.

    A temporary folder counts only where the program does not work inside it.
    """
    here = os.path.realpath(".")
    named = [os.environ[name] for name in _CACHES if os.environ.get(name)]
    named += [os.path.join(here, "torch_compile_debug"), os.path.expanduser("~/.cache")]
    temporary = os.path.realpath(_temporary_folder())
    if here != temporary and not here.startswith(temporary + os.sep):
        named.append(temporary)
    return tuple(path for path in map(os.path.realpath, named) if path not in (here, os.sep))


def _temporary_folder() -> str:
    """Where temporary files go, as far as that is settled.

    An audit hook must not ask `tempfile.gettempdir`: that opens files, under a lock, to find out.
    """
    if tempfile.tempdir:
        return os.fsdecode(tempfile.tempdir)
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return next((path for path in named if path), "/tmp")


#: Names that `tempfile` and C compilers give to their temporary files.
_TEMPORARY_NAME = re.compile(r"tmp[a-z0-9_]{8}\b.*|cc[A-Za-z0-9]{6}\..*")


def _is_temporary(path: str) -> bool:
    """Whether a file lies in the temporary folder itself and has such a name.

    A program may work in that folder, where every process of the machine leaves such files.
    """
    folder, name = os.path.split(os.path.realpath(path))
    here = os.path.realpath(_temporary_folder())
    return folder == here and _TEMPORARY_NAME.fullmatch(name) is not None


def _is_below(real: str, folders: Iterable[str]) -> bool:
    return any(real == item or real.startswith(item + os.sep) for item in folders)


#: A line of torch's own log (``TORCH_LOGS``), which tells of the compiler and not of the program.
#: The second is Python's own word, once a process, where a program has no handler of last resort.
_TORCH_LOG = re.compile(
    r"^(?:\[rank\d+\]:)?[A-Z]\d{4} [\d:.]+ \d+ torch/\S+:\d+\].*\n?"
    r"|^No handlers could be found for logger \"torch\.\S*\"\n?",
    re.MULTILINE,
)


def _position(fd: int) -> int:
    """The end of the file behind a descriptor; -1 where it is no regular file."""
    try:
        return os.fstat(fd).st_size
    except OSError:
        return -1


def _read_from(fd: int, start: int) -> str:
    if start < 0:
        return ""
    try:
        size = os.fstat(fd).st_size - start
        with open(f"/proc/self/fd/{fd}", "rb") as file:
            file.seek(start)
            return file.read(min(size, 1024 * 1024)).decode("utf-8", "replace")
    except OSError:
        return ""


Listing = Mapping[str, tuple[int, int, int]]


def _listing(folder: str) -> Listing:
    """Size, time and inode of the files in the working folder and one level below.

    torch.save opens its file in C++, where no audit event sees it: the folder tells.
    """
    result: dict[str, tuple[int, int, int]] = {}
    pending = collections.deque([(folder, 0)])
    while pending and len(result) < _MAX_FILES:
        path, depth = pending.popleft()
        try:
            entries = list(os.scandir(path))
        except OSError:
            continue
        for entry in entries[:_MAX_FILES]:
            try:
                if entry.is_dir(follow_symlinks=False):
                    hidden = entry.name.startswith((".", "__pycache__"))
                    if depth < 1 and not hidden and len(entries) < 200:
                        pending.append((entry.path, depth + 1))
                    continue
                stat = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            result[entry.path] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return result


def _let_clock_tick(folder: str) -> None:
    """Wait until a file written just now would get a later time when it is written again."""
    newest = max((stamp for _, stamp, _ in _listing(folder).values()), default=0)
    if abs(time.time_ns() - newest) < 12_000_000:
        time.sleep(0.015)


def _adds(mode: object) -> bool:
    """Whether a file is opened to add to its end, and for nothing else."""
    return isinstance(mode, str) and "a" in mode and "+" not in mode


def _changed(
    before: Listing,
    after: Listing,
    ignore: tuple[str, ...],
    appended: Set[str] = frozenset(),
    holes: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """What became of files; of those that are only added to, what was added, behind the ``holes``
    of those that were put back while the program had them open.

    What stood in them before is other calls' work, of which not every run makes the same.
    """
    result: dict[str, str] = {}
    for path, stamp in after.items():
        real = os.path.realpath(path)
        if before.get(path) == stamp or _is_below(real, ignore):
            continue
        old = before.get(path)
        grew = old is not None and old[2] == stamp[2] and old[0] <= stamp[0]
        adds = real in appended
        start = old[0] if old is not None and grew and adds else 0
        # Who writes a file anew and who adds to it do not do the same, whatever they write.
        hole = (holes or {}).get(real, 0)
        result[path] = ("added " if adds else "") + _digest(path, start, None, hole)
    if result:
        for real in zygote.held_elsewhere():
            result = {path: text for path, text in result.items() if os.path.realpath(path) != real}
    for path in before:
        if path not in after and not _is_below(os.path.realpath(path), ignore):
            result[path] = "deleted"
    return result


def _digest(path: str, start: int, end: int | None, hole: int = 0) -> str:
    """A digest of what stands in a file from ``start`` up to ``end``, less the zeros of a hole."""
    try:
        with open(path, "rb") as file:
            size = (os.fstat(file.fileno()).st_size if end is None else end) - start
            if size > _MAX_HASHED:
                return f"{size} bytes"
            file.seek(start)
            text = file.read(size)
    except OSError:
        return "unreadable"
    zeros = len(text) - len(text.lstrip(b"\0"))
    return hashlib.sha256(text[min(zeros, hole) :]).hexdigest()


def _written_up_to() -> dict[str, int]:
    """Where this process would write next, in each file that it has open to write, on Linux.

    What only adds to a file writes at its end, wherever that is.
    """
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for number in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):
                flags = fcntl.fcntl(number, fcntl.F_GETFL)
                if flags & os.O_ACCMODE == os.O_RDONLY or flags & os.O_APPEND:
                    continue
                real = os.readlink(f"/proc/self/fd/{number}")
                if os.path.isfile(real):
                    found[real] = max(found.get(real, 0), os.lseek(number, 0, os.SEEK_CUR))
    return found
