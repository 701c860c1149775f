"""``--repro DIR``: a small script for each break that stays, with the inputs that were recorded.

The script holds what the region needs of the program's own file (a program cannot be imported
without running), imports the rest, and calls the region under ``fullgraph=True``.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import pickletools
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gbfix import GbfixError, packages
from gbfix.report import plain
from gbfix.runner import Runner
from gbfix.schema import BreakReport, Options, Report, Target
from gbfix.source import SourceFile, project_root
from gbfix.worker.protocol import Job

_SECONDS = 120.0


class ReproError(GbfixError):
    """Why nothing was written, in one line."""


@dataclasses.dataclass(frozen=True)
class Written:
    """A script, or (``problem``) why there is none for this break."""

    path: str
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class _Kept:
    """What the worker kept of one region's first call."""

    data: Path
    name: str
    module: str
    grad: bool
    error: str


def check_folder(folder: Path) -> None:
    """Raise `ReproError` where no script may be written: before the program runs."""
    if folder.exists() and not folder.is_dir():
        raise ReproError(f"--repro {folder}: is a file; name a folder")


def write(
    report: Report,
    target: Target,
    options: Options,
    folder: Path,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Written]:
    """Write a script for each break that stays; runs the program once more for its inputs."""
    left = [found for found in report.breaks if found.status != "fixed"]
    if not left:
        return []
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReproError(f"--repro {folder}: cannot be made: {error.strerror}") from error
    progress("keeping the inputs of what still breaks")
    entry = os.path.abspath(os.path.join(target.cwd, target.value.partition("::")[0]))
    with Runner() as runner:
        kept = _keep(runner, target, options, entry)
        numbers: dict[str, int] = {}
        written = []
        for found in left:
            one = kept.get(found.graph_break.region)
            base = _name(found, numbers)
            if one is None or one.error:
                why = one.error if one is not None else "its region was not called again"
                written.append(Written(base, why))
                continue
            progress(f"writing {base}.py")
            written.append(_write(found, one, entry, target, folder, base))
    return written


def _keep(runner: Runner, target: Target, options: Options, entry: str) -> dict[str, _Kept]:
    start = target.cwd if target.kind == "module" else entry
    folder = runner.new_directory("inputs")
    include = packages.places(options.include)
    job = Job(
        "inputs", target, folder, str(project_root(start)), calls=1, exclude=options.exclude,
        include=include, memory_limit=options.memory_limit,
    )  # fmt: skip
    runner.wait_ready()
    runner.run(job, options.timeout)
    runner.restore_files()
    found = {}
    for path in Path(folder).glob("*.json"):
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found[about["key"]] = _Kept(
            path.with_suffix(".pt"), about["name"], about["module"], about["grad"], about["error"]
        )
    return found


def _name(found: BreakReport, numbers: dict[str, int]) -> str:
    region = found.graph_break.region.rpartition("::")[2]
    name = re.sub(r"\W+", "_", f"{found.graph_break.code}_{region}").strip("_").lower()
    numbers[name] = numbers.get(name, 0) + 1
    return name if numbers[name] == 1 else f"{name}_{numbers[name]}"


def _write(
    found: BreakReport, kept: _Kept, entry: str, target: Target, folder: Path, base: str
) -> Written:
    is_main = kept.module == "__main__"
    roots = {name.partition(".")[0] for name in _main_names(kept.data)}
    if is_main:
        roots.add(kept.name.partition(".")[0])
    if "<locals>" in kept.name and kept.module:
        return Written(base, f"{kept.name} is defined inside a function")
    body = ""
    if roots:
        if target.kind == "module":
            return Written(base, "the program is a module: its parts cannot be told apart")
        body = _needed(SourceFile.read(entry).text, roots)
    call = kept.name if is_main else f"{kept.module.rpartition('.')[2]}.{kept.name}"
    lines = [
        f'"""{_docstring(found)}"""',
        "",
        "import pathlib",
        "import sys",
        "",
        f"sys.path.insert(0, {os.path.dirname(entry)!r})  # the program's own folder",
        "",
        "import torch",
        "",
        *([body.rstrip(), ""] if body else []),
    ]
    if kept.module and not is_main:
        top, _, last = kept.module.rpartition(".")
        lines += [f"from {top} import {last}" if top else f"import {last}", ""]
    lines += [
        f'saved = torch.load(pathlib.Path(__file__).with_name("{base}.pt"), weights_only=False)',
        f"target = {call}" if kept.module else 'target = saved["target"]',
        'target = getattr(target, "_torchdynamo_orig_callable", target)',
        f"torch.set_grad_enabled({kept.grad})",
        'compiled = torch.compile(target, fullgraph=True, backend="eager")',
        'compiled(*saved["args"], **saved["kwargs"])',
    ]
    script = folder / f"{base}.py"
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copyfile(kept.data, folder / f"{base}.pt")
    return Written(str(script), _tried(script))


def _tried(script: Path) -> str:
    """Run the script; what is wrong with it as a reproduction, or an empty string."""
    try:
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {_SECONDS:g} s"
    if done.returncode == 0:
        return "it does not break by itself: what comes before it in the program plays a part"
    lines = done.stderr.strip().splitlines()
    told = next(
        (x for x in lines if re.match(r"torch\.\S+: |[\w.]*(?:Unsupported|UserError)", x)), ""
    )
    if told or "torch._dynamo" in done.stderr or "from user code" in done.stderr:
        return ""
    return f"it fails otherwise: {lines[-1][:200] if lines else done.returncode}"


def _docstring(found: BreakReport) -> str:
    cause = found.graph_break
    parts = [f"{cause.code} {cause.gb_type}".strip() + "."]
    if cause.site is not None:
        parts.append(f"At {cause.site.path}:{cause.site.line}, in {cause.site.function}:\n\n"
                     f"    {cause.site.text.strip()}")  # fmt: skip
    why = plain.why(cause.explanation or cause.message)
    parts.append("\n".join(textwrap.wrap(why, 96)))
    for attempt in found.attempts:
        text = f"Tried: {attempt.codemod} ({attempt.title}): {attempt.reason or 'passed'}"
        parts.append("\n".join(textwrap.wrap(" ".join(text.split()), 96)))
    for advice in found.advice:
        parts.append("\n".join(textwrap.wrap(f"Advice: {' '.join(advice.split())}", 96)))
    if found.url:
        parts.append(found.url)
    text = "\n\n".join(parts)
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + "\n"


def _main_names(data: Path) -> set[str]:
    """Names of the program's own file that a saved object refers to."""
    found: set[str] = set()
    with zipfile.ZipFile(data) as archive:
        name = next(item for item in archive.namelist() if item.endswith("data.pkl"))
        pickled = archive.read(name)
    strings: list[str] = []
    for code, argument, _ in pickletools.genops(pickled):
        if code.name == "GLOBAL":
            module, _, qualname = str(argument).partition(" ")
            if module == "__main__":
                found.add(qualname)
        elif code.name == "STACK_GLOBAL" and len(strings) > 1 and strings[-2] == "__main__":
            found.add(strings[-1])
        if isinstance(argument, str):
            strings.append(argument)
    return found


def _needed(text: str, roots: Iterable[str]) -> str:
    """The statements of a file that its names need, in their order; comments inside are kept."""
    tree = ast.parse(text)
    binds = [(node, _bound(node)) for node in tree.body]
    wanted: set[int] = set()
    queue = list(roots)
    seen: set[str] = set()
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        for at, (node, names) in enumerate(binds):
            if name in names and at not in wanted:
                wanted.add(at)
                queue += [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]
    lines = text.splitlines()
    chosen = []
    for at in sorted(wanted):
        node = binds[at][0]
        decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
        first = min([node.lineno, *(item.lineno for item in decorators)])
        chosen.append("\n".join(lines[first - 1 : node.end_lineno]))
    return _spaced(chosen)


def _spaced(parts: Sequence[str]) -> str:
    text = ""
    for part in parts:
        is_block = part.startswith(("def ", "class ", "@", "async "))
        text += ("\n\n" if is_block and text else "") + part + "\n"
        text += "\n\n" if is_block else ""
    return re.sub(r"\n{4,}", "\n\n\n", text)


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement at the top of a file binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(item.asname or item.name).partition(".")[0] for item in node.names}
    if isinstance(node, ast.If) and _is_main_guard(node.test):
        return set()
    found: set[str] = set()
    for item in ast.walk(node):
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
            found.add(item.id)
        elif isinstance(item, ast.Import | ast.ImportFrom):
            found |= {(name.asname or name.name).partition(".")[0] for name in item.names}
    return found


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and ast.unparse(test.left) == "__name__"
