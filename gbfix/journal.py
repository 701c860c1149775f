"""Writing patches to disk: all or nothing, kept in a journal so that `gbfix undo` is exact.

One apply goes like this.  Every check comes first, and nothing is written if one fails.  Then the
journal, with the old and the new bytes of every file, is written and synced; then each new text
goes to a temporary file beside its target; then these files are renamed over their targets; then
the journal is marked as applied.  A rename is atomic, so a process killed anywhere leaves each file
old or new, and the journal tells the next run (`recover`) how to get to all old or all new.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gbfix import GbfixError
from gbfix.schema import Patch
from gbfix.source import SourceError, SourceFile

_KEPT = 50  # journals of finished applies to keep, for so many undos in a row

Step = Callable[[str], None]


class ApplyError(GbfixError):
    """Why nothing was written (or nothing undone), in one line: path, cause, next step."""


@dataclasses.dataclass(frozen=True)
class Recovered:
    """What was done about an interrupted run; ``restored`` says that old text was put back."""

    message: str
    restored: bool


@dataclasses.dataclass(frozen=True)
class _File:
    """One file of a journal: its place, its old and new bytes, its permissions."""

    path: str
    temporary: str
    before: bytes
    after: bytes
    mode: int

    def bytes_now(self) -> bytes | None:
        """The bytes on disk; None when the file is gone."""
        try:
            return Path(self.path).read_bytes()
        except FileNotFoundError:
            return None


@dataclasses.dataclass(frozen=True)
class _Journal:
    """``state`` is ``pending``, ``applied``, ``undoing`` or ``undone``."""

    path: Path
    state: str
    files: tuple[_File, ...]
    force: bool = False


def state_folder(root: str | Path) -> Path:
    """Where the journals of a project live: below ``GBFIX_STATE_DIR``, else the user's state
    folder, in a folder of the project's own.
    """
    base = os.environ.get("GBFIX_STATE_DIR")
    if not base:
        import platformdirs

        base = platformdirs.user_state_dir("gbfix", appauthor=False)
    real = os.path.realpath(root)
    key = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    return Path(base, f"{os.path.basename(real) or 'root'}-{key}")


def apply(
    patches: Sequence[Patch],
    folder: Path,
    *,
    cwd: str | Path = ".",
    roots: Sequence[str | Path] = (),
    step: Step = lambda name: None,
) -> tuple[str, ...]:
    """Write the patches' new texts, all of them or none, and return the paths written.

    ``folder`` is the project's `state_folder`; relative paths count from ``cwd``; with ``roots``
    given, files outside all of them are refused.  Raises `ApplyError`, with nothing changed, when
    a file is not what it was when the patch was made, or cannot be written.  ``step`` is called
    after each step that changes the disk.
    """
    with _locked(folder):
        _recover(folder, step)
        number = _next_number(folder)
        files = tuple(_checked(patch, number, Path(cwd), roots) for patch in patches)
        repeated = [f.path for i, f in enumerate(files) if f.path in {o.path for o in files[:i]}]
        if repeated:
            raise ApplyError(f"{repeated[0]}: two patches for one file; nothing was written")
        if not files:
            return ()
        journal = _Journal(folder / f"{number:06d}.json", "pending", files)
        _save(journal)
        step("journal")
        try:
            for file in files:
                _write_temporary(file, file.after)
                step("temporary")
            for file in files:
                if file.bytes_now() != file.before:
                    raise ApplyError(f"{file.path}: changed while gbfix was writing; run it again")
            for file in files:
                _rename(file)
                step("rename")
        except BaseException as error:
            with _told(folder):
                _roll_back(journal, step)
            if isinstance(error, OSError):
                raise ApplyError(
                    f"{error.filename}: cannot be written: {error.strerror}; nothing was changed"
                ) from error
            raise
        _save(dataclasses.replace(journal, state="applied"))
        step("applied")
        _prune(folder)
        return tuple(file.path for file in files)


def undo(folder: Path, *, force: bool = False, step: Step = lambda name: None) -> tuple[str, ...]:
    """Take back the last apply of a project, exactly, and return the paths restored.

    Raises `ApplyError` when there is none, and, unless ``force`` is given, when a file was edited
    or removed since: nothing is changed then.
    """
    if not folder.is_dir():
        raise ApplyError("nothing to undo: gbfix has not written to this project")
    with _locked(folder):
        _recover(folder, step)
        applied = [j for j in _journals(folder) if j.state == "applied"]
        if not applied:
            raise ApplyError("nothing to undo: no changes by gbfix are left in this project")
        journal = applied[-1]
        for file in journal.files:
            now = file.bytes_now()
            if now != file.after and not force:
                what = "was removed" if now is None else "was edited"
                raise ApplyError(
                    f"{file.path}: {what} since gbfix wrote it; nothing was undone; "
                    "`gbfix undo --force` restores it and drops the edits"
                )
            _check_writable(Path(file.path), exists=now is not None)
        journal = dataclasses.replace(journal, state="undoing", force=force)
        _save(journal)
        step("journal")
        with _told(folder):
            return _finish_undo(journal, step)[0]


def recover(folder: Path, *, step: Step = lambda name: None) -> Recovered | None:
    """Finish or roll back an apply or undo that was interrupted; None when none was.

    Files edited in the meantime are left as they are, and named in the message.
    """
    if not folder.is_dir() or not any(folder.glob("*.json")):
        return None
    with _locked(folder):
        return _recover(folder, step)


def _recover(folder: Path, step: Step) -> Recovered | None:
    messages = []
    restored = False
    with _told(folder):
        for journal in _journals(folder):
            if journal.state == "undoing":
                edited = _finish_undo(journal, step)[1]
                messages.append("an interrupted undo was completed" + _left(edited))
                restored = True
            elif journal.state != "pending":
                continue
            elif all(file.bytes_now() == file.after for file in journal.files):
                _save(dataclasses.replace(journal, state="applied"))
                messages.append("an interrupted --apply had written all its files; it is complete")
            else:
                edited = _roll_back(journal, step)
                messages.append("an interrupted --apply was rolled back" + _left(edited))
                restored = True
    return Recovered("; ".join(messages), restored) if messages else None


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    """A failure to put old bytes back, as an `ApplyError` that says where they are."""
    try:
        yield
    except OSError as error:
        raise ApplyError(
            f"{error.filename or folder}: the old text could not be put back: {error.strerror}; "
            f"`gbfix undo` tries again, from the journal in {folder}"
        ) from error


def _left(edited: Sequence[str]) -> str:
    return f" (edited since, left as they are: {', '.join(edited)})" if edited else ""


def _roll_back(journal: _Journal, step: Step) -> list[str]:
    """Every file that is new becomes old again; returns those that are neither."""
    edited = []
    for file in journal.files:
        _remove_temporary(file)
        now = file.bytes_now()
        if now == file.after != file.before:
            _write_temporary(file, file.before)
            step("temporary")
            _rename(file)
            step("rename")
        elif now != file.before:
            edited.append(file.path)
    _save(dataclasses.replace(journal, state="undone"))
    step("rolled back")
    return edited


def _finish_undo(journal: _Journal, step: Step) -> tuple[tuple[str, ...], list[str]]:
    edited = []
    for file in journal.files:
        _remove_temporary(file)
        now = file.bytes_now()
        if now == file.before:
            continue
        if now != file.after and not journal.force:
            edited.append(file.path)
            continue
        _write_temporary(file, file.before)
        step("temporary")
        _rename(file)
        step("rename")
    _save(dataclasses.replace(journal, state="undone"))
    step("undone")
    return tuple(file.path for file in journal.files if file.path not in edited), edited


# -- checks, before anything is written ----------------------------------------------------------


def _checked(patch: Patch, number: int, cwd: Path, roots: Sequence[str | Path]) -> _File:
    """The file that a patch changes, after making sure that it can be and still is the old one."""
    named = Path(os.path.abspath(cwd / patch.path))
    if roots and not any(named.is_relative_to(os.path.abspath(root)) for root in roots):
        raise ApplyError(
            f"{named}: is outside the project {roots[0]}; nothing was written; "
            "run gbfix from the project that the file belongs to"
        )
    path = Path(os.path.realpath(named))
    try:
        source = SourceFile.read(path)
        if source.text != patch.before:
            raise ApplyError(
                f"{named}: changed since gbfix read it; nothing was written; run gbfix again"
            )
        after = source.encode(patch.after)
    except SourceError as error:
        raise ApplyError(f"{error}; nothing was written") from error
    _check_writable(path, exists=True)
    temporary = path.with_name(f".{path.name[:180]}.gbfix-{number}-{os.getpid()}.tmp")
    mode = stat.S_IMODE(path.stat().st_mode)
    return _File(str(path), str(temporary), source.data, after, mode)


def _check_writable(path: Path, *, exists: bool) -> None:
    for place in (path, path.parent) if exists else (path.parent,):
        what = "folder" if place == path.parent else "file"
        try:
            mode = place.stat().st_mode
        except OSError as error:
            raise ApplyError(f"{place}: {error.strerror}; nothing was written") from error
        # The bits say what the owner wants; root could write in spite of them.
        if not mode & 0o222:
            raise ApplyError(
                f"{place}: is a read-only {what}; nothing was written; "
                f"make it writable first (chmod u+w)"
            )
        if not os.access(place, os.W_OK):
            raise ApplyError(f"{place}: no permission to write this {what}; nothing was written")


# -- writing -------------------------------------------------------------------------------------


def _write_temporary(file: _File, data: bytes) -> None:
    """The data, synced, in a new file beside the target, with the target's mode and owner."""
    _remove_temporary(file)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(file.temporary, flags, 0o600)
    try:
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(data)
        _keep_attributes(file.path, descriptor)
        os.fchmod(descriptor, file.mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_attributes(path: str, descriptor: int) -> None:
    """Owner and extended attributes of the old file, as far as we are allowed to set them."""
    with contextlib.suppress(OSError):
        owner, own = os.stat(path), os.fstat(descriptor)
        if (owner.st_uid, owner.st_gid) != (own.st_uid, own.st_gid):
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(path):
                os.setxattr(descriptor, name, os.getxattr(path, name))


def _rename(file: _File) -> None:
    os.replace(file.temporary, file.path)
    _sync_folder(Path(file.path).parent)


def _remove_temporary(file: _File) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(file.temporary)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- the journal ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one gbfix at a time writes to a project; the lock goes with the process."""
    try:
        for missing in reversed([p for p in (folder, *folder.parents) if not p.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
            _sync_folder(missing.parent)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ApplyError(
            f"{folder}: the journal cannot be kept: {error.strerror}; nothing was written; "
            "set GBFIX_STATE_DIR to a folder that can be written"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _next_number(folder: Path) -> int:
    return max((int(path.stem) for path in _journal_paths(folder)), default=0) + 1


def _journal_paths(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.json") if path.stem.isdigit())


def _journals(folder: Path) -> list[_Journal]:
    return [_load(path) for path in _journal_paths(folder)]


def _load(path: Path) -> _Journal:
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        files = tuple(
            _File(
                item["path"],
                item["temporary"],
                base64.b64decode(item["before"]),
                base64.b64decode(item["after"]),
                item["mode"],
            )
            for item in data["files"]
        )
        return _Journal(path, data["state"], files, bool(data.get("force")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ApplyError(f"{path}: the journal cannot be read ({error}); move it away") from error


def _save(journal: _Journal) -> None:
    """Write the journal so that it is wholly there or not at all, and synced."""
    data = {
        "version": 1,
        "state": journal.state,
        "force": journal.force,
        "files": [
            {
                "path": file.path,
                "temporary": file.temporary,
                "before": base64.b64encode(file.before).decode("ascii"),
                "after": base64.b64encode(file.after).decode("ascii"),
                "mode": file.mode,
            }
            for file in journal.files
        ],
    }
    temporary = journal.path.with_suffix(".tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(data, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, journal.path)
        _sync_folder(journal.path.parent)
    except OSError as error:
        raise ApplyError(
            f"{journal.path}: the journal cannot be written: {error.strerror}"
        ) from error


def _prune(folder: Path) -> None:
    for path in _journal_paths(folder)[:-_KEPT]:
        with contextlib.suppress(OSError):
            path.unlink()
