"""What somebody changed in a project: the texts of its files before and after.

Either side may be what is on disk (`Change.on_disk`); the other comes from a revision, a folder or
a patch.  Nothing is written to the project.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gbfix import GbfixError
from gbfix.patch import display_path
from gbfix.source import ABSENT, SourceFile

_SKIPPED = frozenset({"__pycache__", ".git", ".hg", "node_modules", ".tox", "site-packages"})


class ChangeError(GbfixError):
    """The two versions cannot be got hold of: one line that says why and what to do."""


@dataclasses.dataclass(frozen=True)
class ChangedFile:
    """One file of Python source; None stands for a version that does not have it."""

    path: str
    before: bytes | None
    after: bytes | None

    @property
    def kind(self) -> str:
        if self.before is None:
            return "added"
        return "deleted" if self.after is None else "changed"

    @property
    def texts(self) -> tuple[str, str]:
        """Both texts; raises `SourceError` for what Python could not read either."""
        return _text(self.path, self.before), _text(self.path, self.after)


@dataclasses.dataclass(frozen=True)
class Change:
    """All that differs between two versions; ``others`` are files that hold no Python source."""

    #: What it is compared with, in words: ``HEAD``, a folder, a patch.
    against: str
    files: tuple[ChangedFile, ...]
    others: tuple[str, ...] = ()

    @property
    def base(self) -> dict[str, bytes]:
        """By real path: what the files held before."""
        return {item.path: _bytes(item.before) for item in self.files}

    @property
    def edits(self) -> dict[str, str]:
        """By real path: the texts after the change."""
        return {item.path: item.texts[1] for item in self.files}

    def shown(self, cwd: str | Path) -> list[tuple[str, str]]:
        """Names as a reader knows them, and what became of each file."""
        return [(display_path(item.path, cwd), item.kind) for item in self.files]


def against_revision(revision: str, folder: Path) -> Change:
    """The working tree next to a revision of its repository."""
    root = _repository(folder)
    if _ask_git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") is None:
        raise ChangeError(
            f"--against: {revision!r} is neither a folder nor a revision of {root}; "
            "name a commit, a branch, a tag or a folder"
        )
    diff = _git(root, "diff", "--name-only", "--no-renames", "-z", revision, "--")
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    names = dict.fromkeys([*_names(diff), *_names(new)])
    files, others = [], []
    for name in names:
        if _SKIPPED & set(Path(name).parts):
            continue
        path = os.path.realpath(root / name)
        if not name.endswith((".py", ".pyw")):
            others.append(path)
            continue
        before = _ask_git(root, "cat-file", "blob", f"{revision}:{name}")
        files.append(ChangedFile(path, before, _read(Path(path))))
    return Change(revision, _changed(files), tuple(others))


def against_folder(folder: Path, root: Path) -> Change:
    """A project next to an older copy of it."""
    files, others = [], []
    # An older copy may lie in the project itself.
    here = {name for name in _tree(root) if not (root / name).is_relative_to(folder)}
    there = _tree(folder)
    for name in sorted({*here, *there}):
        before, after = _read(folder / name), _read(root / name)
        if before == after:
            continue
        path = os.path.realpath(root / name)
        if name.endswith((".py", ".pyw")):
            files.append(ChangedFile(path, before, after))
        else:
            others.append(path)
    return Change(str(folder), _changed(files), tuple(others))


_TOUCHED = re.compile(rb"^(?:---|\+\+\+) (\"?)(?:([ab])/)?(.+?)(?:\t.*)?\r?$", re.MULTILINE)


def root_for(patch: bytes, roots: list[Path]) -> Path:
    """The folder in which the names of a patch start: the one that has most of its files."""
    names = {_unquoted(quote, rest) for quote, _, rest in _TOUCHED.findall(patch)}
    return max(roots, key=lambda root: sum((root / name).is_file() for name in names))


def with_patch(patch: bytes, root: Path, name: str) -> Change:
    """A project with a unified diff (as `git diff` and `gbfix` write it) on top of it."""
    heads = _TOUCHED.findall(patch)
    if not heads:
        raise ChangeError(f"--patch: {name} holds no unified diff (`git diff` writes one)")
    levels = "-p1" if any(letter for _, letter, _ in heads) else "-p0"
    wanted = {_unquoted(quote, rest) for quote, _, rest in heads} - {"/dev/null"}
    with tempfile.TemporaryDirectory(prefix="gbfix-patch-") as scratch:
        copy = Path(scratch).resolve()
        for item in wanted:
            source, target = root / item, copy / item
            if not target.resolve().is_relative_to(copy):
                raise ChangeError(f"--patch: {name} changes {item}, which lies outside the project")
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        words = ["git", "apply", levels, "--whitespace=nowarn", "-"]
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)}
        try:
            done = subprocess.run(
                words, cwd=copy, input=patch, capture_output=True, env=environment, check=False
            )
        except FileNotFoundError:
            raise ChangeError("--patch needs git, which was not found; install it") from None
        if done.returncode:
            why = done.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = why[0].removeprefix("error: ") if why else "git apply failed"
            raise ChangeError(
                f"--patch: {name} does not apply to {root}: {reason}; "
                "run gbfix where the names in the patch start"
            )
        files, others = [], []
        for item in sorted(wanted):
            path = os.path.realpath(root / item)
            if item.endswith((".py", ".pyw")):
                files.append(ChangedFile(path, _read(root / item), _read(copy / item)))
            else:
                others.append(path)
    return Change(name, _changed(files), tuple(others))


def _changed(files: list[ChangedFile]) -> tuple[ChangedFile, ...]:
    return tuple(item for item in files if item.before != item.after)


def _bytes(data: bytes | None) -> bytes:
    return ABSENT.encode() if data is None else data


def _text(path: str, data: bytes | None) -> str:
    return SourceFile.from_bytes(path, _bytes(data)).text


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise ChangeError(f"{path} cannot be read: {error.strerror}") from None


def _tree(root: Path) -> set[str]:
    return set(_walk(root))


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        if "pyvenv.cfg" in names:
            folders.clear()  # an environment, and no part of the project
            continue
        folders[:] = [name for name in folders if name not in _SKIPPED]
        for name in names:
            if not name.endswith((".pyc", ".pyo")):
                yield os.path.relpath(os.path.join(folder, name), root)


def _repository(folder: Path) -> Path:
    found = _ask_git(folder, "rev-parse", "--show-toplevel")
    if found is None:
        raise ChangeError(
            f"{folder} is in no git repository; name an older copy of the project with "
            "--against DIR, or the change with --patch FILE"
        )
    return Path(os.fsdecode(found.rstrip(b"\n")))


def _git(folder: Path, *words: str) -> bytes:
    """What git prints; raises `ChangeError` where it fails."""
    done = _run_git(folder, words)
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()
        raise ChangeError(f"git {words[0]} failed in {folder}: {why}")
    return done.stdout


def _ask_git(folder: Path, *words: str) -> bytes | None:
    """What git prints; None where it fails, as that is an answer."""
    done = _run_git(folder, words)
    return None if done.returncode else done.stdout


def _run_git(folder: Path, words: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, env=environment, check=False
        )
    except FileNotFoundError:
        raise ChangeError("git was not found; name an older copy with --against DIR") from None


def _names(output: bytes) -> list[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _unquoted(quote: bytes, rest: bytes) -> str:
    name = os.fsdecode(rest)
    if not quote:
        return name
    name = name.removesuffix('"')
    name = re.sub(r"^[ab]/", "", name)
    return (
        name.encode("utf-8", "surrogateescape")
        .decode("unicode_escape")
        .encode("latin-1", "replace")
        .decode("utf-8", "replace")
    )
