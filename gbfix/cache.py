"""Answers a repeated question from disk: same sources, arguments, options and versions.

An entry is found by everything that is known before the program runs, and holds only while every
project file that the program loaded, or that imports one of these, (and every codemod) still has
the same content.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pickle
import platform
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import platformdirs

import gbfix
from gbfix import catalog
from gbfix.project_files import neighbours
from gbfix.schema import Options, Report, Target
from gbfix.source import project_root

_FORMAT = 2
#: Variables that change what Python or torch do with the same source.
_VARIABLES = ("PYTHONPATH", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "OMP_NUM_THREADS", "TORCH_COMPILE")


@dataclasses.dataclass(frozen=True)
class _Entry:
    format: int
    report: Report
    files: tuple[tuple[str, str], ...]
    #: Those that did not run, and import one of these: another one may come to them.
    beside: tuple[tuple[str, str], ...]


def folder() -> Path:
    """Where entries live; ``GBFIX_CACHE_DIR`` overrides the platform's place."""
    override = os.environ.get("GBFIX_CACHE_DIR")
    return Path(override) if override else Path(platformdirs.user_cache_dir("gbfix"))


def load(target: Target, options: Options, torch_version: str) -> Report | None:
    """The report of an earlier run that still holds, or None."""
    path = folder() / f"{_key(target, options, torch_version)}.pickle"
    try:
        entry = pickle.loads(path.read_bytes())
    except Exception:
        # Missing, half-written or from another version: as good as none.
        return None
    if not isinstance(entry, _Entry) or entry.format != _FORMAT:
        return None
    if any(_digest(name) != digest for name, digest in entry.files):
        return None
    if _beside(target, [name for name, _ in entry.files]) != entry.beside:
        return None
    return dataclasses.replace(entry.report, cached=True)


def store(
    target: Target, options: Options, torch_version: str, report: Report, files: Iterable[str]
) -> None:
    """Keep a report; failing to is no error (a full disk must not cost the user the result).

    What a time limit decided may come out otherwise on a quieter machine: that is not kept.
    """
    patches = (*report.patches, *report.unsafe_patches)
    if any(error.kind == "budget" for error in report.errors):
        return
    if any(rung.passed is None for patch in patches for rung in patch.verdict.rungs):
        return
    path = folder() / f"{_key(target, options, torch_version)}.pickle"
    digests = tuple((name, _digest(name)) for name in sorted(set(files)))
    beside = _beside(target, [name for name, _ in digests])
    data = pickle.dumps(_Entry(_FORMAT, report, digests, beside), protocol=5)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)


def _beside(target: Target, files: Sequence[str]) -> tuple[tuple[str, str], ...]:
    entry = ""
    if target.kind != "module":
        entry = os.path.abspath(os.path.join(target.cwd, target.value.partition("::")[0]))
    found = neighbours(files, entry, str(project_root(entry or target.cwd)))
    return tuple((name, _digest(name)) for name in sorted(found))


def _key(target: Target, options: Options, torch_version: str) -> str:
    parts = (
        _FORMAT,
        gbfix.__version__,
        torch_version,
        platform.python_version(),
        target,
        dataclasses.replace(options, verbose=0, jobs=0),
        tuple((name, os.environ.get(name)) for name in _VARIABLES),
        _tool(),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _tool() -> str:
    """A digest over the code of gbfix and all codemods: a developer's edit counts as a version."""
    digest = hashlib.sha256()
    roots = {Path(__file__).parent, *(Path(info.path).parent for info in catalog.codemods())}
    for root in sorted(roots):
        for path in sorted(root.rglob("*.py")):
            stat = path.stat()
            digest.update(f"{path}:{stat.st_size}:{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _digest(name: str) -> str:
    try:
        return hashlib.sha256(Path(name).read_bytes()).hexdigest()
    except OSError:
        return ""
