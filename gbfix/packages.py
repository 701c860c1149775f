"""Installed packages: where one lives, which one a file belongs to, what to say of its breaks.

Nothing is imported to learn that: a package is found as Python finds it, and left alone.
"""

from __future__ import annotations

import dataclasses
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sysconfig
from collections.abc import Iterable, Sequence

from gbfix.patch import header_path
from gbfix.schema import BreakReport, Frame, Report
from gbfix.words import ArgumentError

_FOLDERS = ("site-packages", "dist-packages")
#: What gbfix does not patch, and why.
_REFUSED = {
    "torch": "gbfix works with torch, not on it",
    "gbfix": "gbfix does not patch itself",
    "gbfix_codemods": "gbfix does not patch itself",
}


@dataclasses.dataclass(frozen=True)
class Package:
    """An importable package or module: ``places`` are its folders, or its one file."""

    name: str
    places: tuple[str, ...]

    @property
    def root(self) -> str:
        """The folder that holds the package, as a repository does: diffs start there."""
        top = self.places[0]
        for _ in self.name.split("."):
            top = os.path.dirname(top)
        return top

    @property
    def version(self) -> str:
        """Of its distribution; empty where that says none."""
        top = self.name.partition(".")[0]
        try:
            return importlib.metadata.version(top)
        except importlib.metadata.PackageNotFoundError:
            pass
        for name in importlib.metadata.packages_distributions().get(top, ()):
            return importlib.metadata.version(name)
        return ""


def find(name: str, option: str = "--include") -> Package:
    """The package of a dotted name; raises `ArgumentError` with the next step."""
    top, *rest = name.split(".")
    if not all(part.isidentifier() for part in (top, *rest)):
        raise ArgumentError(
            f"{option} {name}: is no name of a package; write it as an import does "
            "(sklearn, not scikit-learn)"
        )
    if top in _REFUSED:
        raise ArgumentError(f"{option} {name}: {_REFUSED[top]}; name the package that uses it")
    try:
        # Of the first part only: to ask for a part of a package would import the package.
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    places = _places(spec, rest) if spec is not None else ()
    if not places:
        raise ArgumentError(
            f"{option} {name}: no such package is installed beside gbfix; "
            "name it as an import does, or install it"
        )
    standard = os.path.realpath(sysconfig.get_paths()["stdlib"])
    for place in map(os.path.realpath, places):
        if place.startswith(standard + os.sep) and not _in_site(place):
            raise ArgumentError(f"{option} {name}: is a part of Python, which gbfix does not patch")
    return Package(name, places)


def _places(spec: importlib.machinery.ModuleSpec, rest: Sequence[str]) -> tuple[str, ...]:
    """Folders of a package (several, of a namespace), or the file of a module."""
    if spec.submodule_search_locations is None:
        origin = spec.origin or ""
        is_source = spec.has_location and origin.endswith(".py")
        return (os.path.abspath(origin),) if is_source and not rest else ()
    found = []
    for folder in spec.submodule_search_locations:
        inner = os.path.abspath(os.path.join(folder, *rest))
        found += [place for place in (inner, f"{inner}.py") if os.path.exists(place)]
    return tuple(found)


def places(names: Iterable[str]) -> tuple[str, ...]:
    """The folders and files of packages by name, links resolved."""
    return tuple(os.path.realpath(place) for name in names for place in find(name).places)


def of(path: str) -> tuple[str, str] | None:
    """The folder that holds the installed package of a file, and the package's name."""
    parts = os.path.abspath(path).split(os.sep)
    for at in range(len(parts) - 2, 0, -1):
        if parts[at] in _FOLDERS:
            name = parts[at + 1].removesuffix(".py")
            return os.sep.join(parts[: at + 1]), name
    return None


def holder(path: str, include: Iterable[str]) -> tuple[str, str] | None:
    """As `of`, for included packages that are installed from a folder elsewhere, too."""
    real = os.path.realpath(path)
    for name in include:
        package = find(name)
        for place in map(os.path.realpath, package.places):
            if real == place or real.startswith(place + os.sep):
                top = place
                for _ in name.split("."):
                    top = os.path.dirname(top)
                return top, name.partition(".")[0]
    return of(path)


def _in_site(path: str) -> bool:
    return any(f"{os.sep}{name}{os.sep}" in path for name in _FOLDERS)


def mention(report: Report, include: Iterable[str] = ()) -> None:
    """Where a break comes from inside an installed package, say so, and that it may be patched."""
    included = {name.partition(".")[0] for name in include}
    for found in report.breaks:
        if found.status == "fixed":
            continue
        text = _advice(found, included)
        if text and text not in found.advice:
            found.advice = (text, *found.advice)


def outside(report: Report) -> list[str]:
    """Installed packages that were left alone, and where breaks that stay come from."""
    included = {name.partition(".")[0] for name in report.include}
    left = [found for found in report.breaks if found.status != "fixed"]
    names = [inside[0] for found in left if (inside := _could_include(found, included))]
    return list(dict.fromkeys(names))


def _advice(found: BreakReport, included: set[str]) -> str:
    inside = _could_include(found, included)
    if inside is None:
        return ""
    name, frame = inside
    short = os.path.basename(frame.path)
    return (
        f"The code that breaks is in the installed package {name} ({short}, line "
        f"{frame.line}), which gbfix leaves alone by default. With --include {name}, "
        "it looks for a patch there, too."
    )


def _could_include(found: BreakReport, included: set[str]) -> tuple[str, Frame] | None:
    """The package that ``--include`` would have to name to reach a break, and the frame in it."""
    cause = found.graph_break
    for frame in reversed(cause.frames):
        if frame == cause.site:
            return None
        inside = _package_of(frame)
        if inside is None:
            continue
        return None if inside in _REFUSED or inside in included else (inside, frame)
    return None


def _package_of(frame: Frame) -> str | None:
    """The installed package of a frame; None for torch's own frames inside another one's call."""
    inside = of(frame.path)
    if inside is None or inside[1] in ("torch", "functorch", "_distutils_hack"):
        return None
    return inside[1]


def diff_path(path: str, cwd: str, include: Iterable[str] = ()) -> str:
    """How a diff names a file: from its package's own root, else from the working folder."""
    inside = holder(path, include)
    if inside is not None and not os.path.abspath(cwd).startswith(inside[0]):
        return os.path.relpath(os.path.realpath(path), os.path.realpath(inside[0]))
    return header_path(path, cwd)
