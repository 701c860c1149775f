"""Writes overlays (patched texts beside the files that they were made for) and checks them again.

`gbfix.overlay` serves them.  An overlay is a folder: ``gbfix-overlay.json`` says what it holds and
what was measured, ``files/`` holds the patched texts under their package's own names, and
``changes.patch`` is all of it as one diff.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gbfix
from gbfix import GbfixError, arguments, engine, packages
from gbfix.overlay import FORMAT, MANIFEST, File, Manifest
from gbfix.report.json import as_dict
from gbfix.schema import Options, Patch, Report, Rung, Target
from gbfix.source import SourceFile, project_root

TEXTS = "files"
DIFF = "changes.patch"


class SaveError(GbfixError):
    """Why an overlay was not written, in one line."""


def check_folder(folder: Path) -> None:
    """Raise `SaveError` where an overlay may not be written: before the program runs."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise SaveError(
            f"--save {folder}: holds other files than an overlay's; name a new folder, or empty it"
        )
    if folder.exists() and not folder.is_dir():
        raise SaveError(f"--save {folder}: is a file; name a folder")


def save(report: Report, targets: Sequence[Target], options: Options, folder: Path) -> None:
    """Write the report's patches as an overlay, in place of one that was there."""
    check_folder(folder)
    files = files_of(targets)
    root = project_root(files[0]) if files else project_root(targets[0].cwd)
    fresh = folder.with_name(f".{folder.name}.gbfix-{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        (fresh / TEXTS).mkdir(parents=True)
        entries = [_entry(one, root, options, fresh) for one in report.patches]
        manifest = {
            "version": FORMAT,
            "gbfix": gbfix.__version__,
            "torch": report.torch_version,
            "python": platform.python_version(),
            "root": os.path.relpath(root, folder),
            "callers": options.callers,
            "include": list(options.include),
            "targets": [_target(target, folder) for target in targets],
            "files": entries,
        }
        text = json.dumps(manifest, indent=2) + "\n"
        (fresh / MANIFEST).write_text(text, encoding="utf-8")
        (fresh / DIFF).write_text("".join(one.diff for one in report.patches), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(fresh, folder)
    except OSError as error:
        raise SaveError(f"--save {folder}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def files_of(targets: Sequence[Target]) -> list[Path]:
    return [found for found in map(arguments.file_of, targets) if found is not None]


def _entry(one: Patch, root: Path, options: Options, folder: Path) -> dict[str, Any]:
    source = SourceFile.read(one.path)
    if source.text != one.before:
        raise SaveError(f"{one.path}: changed since gbfix read it; nothing was saved; run it again")
    inside = packages.holder(one.path, options.include)
    version = ""
    if inside is not None:
        path = Path(os.path.relpath(os.path.realpath(one.path), os.path.realpath(inside[0])))
        version = packages.Package(inside[1], (one.path,)).version
    else:
        path = Path(os.path.relpath(os.path.realpath(one.path), os.path.realpath(root)))
    data = source.encode(one.after)
    text = folder / TEXTS / path
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_bytes(data)
    shown = as_dict(Report("", patches=[one]))["patches"][0]
    return {
        "package": inside[1] if inside is not None else "",
        "version": version,
        "path": path.as_posix(),
        "sha256": hashlib.sha256(source.data).hexdigest(),
        "patched_sha256": hashlib.sha256(data).hexdigest(),
        "codemods": shown["codemods"],
        "codes": shown["codes"],
        "titles": shown["titles"],
        "safety": shown["safety"],
        "limits": [*one.verdict.limits, *shown["notes"], *shown["verdict"]["caveats"]],
        "verdict": shown["verdict"],
    }


def _target(target: Target, folder: Path) -> dict[str, Any]:
    data = dataclasses.asdict(target)
    return {**data, "cwd": os.path.relpath(target.cwd or os.getcwd(), folder)}


# -- checking again --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Checked:
    """What became of one file: ``problem`` is empty where its patched text is served."""

    file: File
    origin: str
    problem: str


def files(manifest: Manifest) -> list[Checked]:
    """Every file of an overlay, looked up among what is installed now.  Nothing is imported."""
    found = []
    for file in manifest.files:
        origin = file.place or _origin(file)
        if not origin or not os.path.exists(origin):
            found.append(Checked(file, "", _missing(file)))
            continue
        problem = file.problem(origin)
        now = packages.Package(file.package, (origin,)).version if file.package else ""
        if problem and now and now != file.version:
            problem += f"; {file.package} {now} is installed now"
        found.append(Checked(file, origin, problem))
    return found


def _origin(file: File) -> str:
    try:
        package = packages.find(file.package, "overlay")
    except GbfixError:
        return ""
    inner = file.path.split("/")[1:]
    return next((os.path.join(top, *inner) for top in package.places), "")


def _missing(file: File) -> str:
    if file.package:
        return f"is not installed here (it was of {file.package} {file.version})"
    return "is not there any more"


def check(
    folder: str,
    targets: Sequence[Target],
    options: Options,
    say: Callable[[str], None],
    *,
    quick: bool = False,
) -> int:
    """Say of each file whether it still fits, then run the program again; the exit status."""
    manifest = Manifest(folder)
    looked_up = files(manifest)
    for item in looked_up:
        say(f"{item.file.path}: {item.problem or 'fits'}")
    if any(item.problem for item in looked_up):
        say(
            "What does not fit runs unpatched. Run gbfix with --save again to make the overlay "
            "for what is installed now."
        )
        return 1
    if not looked_up:
        say("The overlay holds no patch.")
    if quick or not looked_up:
        return 0
    wanted = list(targets) or [_from_manifest(item, folder) for item in manifest.data["targets"]]
    edits = {item.origin: SourceFile.read(item.file.text).text for item in looked_up}
    include = tuple(manifest.data.get("include", ()))
    options = dataclasses.replace(options, include=include, use_cache=False)
    well = True
    for target in wanted:
        verdict = engine.verify(target, options, edits)
        say(f"{target.display}:")
        for rung in verdict.rungs:
            say(f"  {_word(rung)} {rung.name}" + (f"  {rung.detail}" if rung.detail else ""))
            for caveat in rung.caveats:
                say(f"    {caveat}")
        well = well and verdict.passed
    return 0 if well else 1


def _word(rung: Rung) -> str:
    return {True: "passed ", False: "FAILED ", None: "not run"}[rung.passed]


def _from_manifest(data: dict[str, Any], folder: str) -> Target:
    cwd = os.path.normpath(os.path.join(os.path.abspath(folder), data["cwd"]))
    return Target(
        data["kind"],
        data["value"],
        tuple(data["args"]),
        data["inputs"],
        cwd,
        tuple((name, value) for name, value in data.get("environment", ())),
    )


def split(patches: Sequence[Patch], options: Options) -> tuple[list[Patch], list[Patch]]:
    """Patches of the project, and those of installed packages."""
    ours: list[Patch] = []
    theirs: list[Patch] = []
    for one in patches:
        inside = packages.holder(one.path, options.include)
        (ours if inside is None else theirs).append(one)
    return ours, theirs
