"""Writes down what shows that a change is wrong: the inputs, both texts and a script to run.

The script is run before anybody is told of it: `Verification.reproduced` says what it showed.
"""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gbfix.changes import Change
from gbfix.schema import Target
from gbfix.source import project_root
from gbfix.verification import RegionVerdict, Verification
from gbfix.worker.wanted import Wanted

#: The state of random streams in which every job starts (`gbfix.worker.job`).
_START = 20250728


def save(folder: Path, result: Verification, change: Change, target: Target, limit: float) -> None:
    """`write`, for the project that a target belongs to."""
    start = Path(target.cwd)
    if target.kind != "module":
        start = start / target.value.partition("::")[0]
    write(folder, result, change, target, str(project_root(start)), limit)


def write(
    folder: Path, result: Verification, change: Change, target: Target, root: str, limit: float
) -> None:
    """Write the first difference of a verdict into a folder, and run its script once."""
    witness = result.witness
    if witness is None:
        return
    part = next(item for item in result.parts if item.witness is witness)
    folder.mkdir(parents=True, exist_ok=True)
    _inputs(folder, change, target, root, part, limit)
    about = {
        "what": part.name,
        "text": witness.text,
        "rung": witness.rung,
        "index": witness.index,
        "start": _START,
        "kind": target.kind,
        "target": target.value,
        "args": list(target.args),
        "inputs": target.inputs,
        "cwd": os.path.abspath(target.cwd or os.getcwd()),
        "regions": _regions(part, change)
        if (folder / "input.pt").exists()
        else {"old": None, "new": None},
    }
    for side in ("old", "new"):
        names: dict[str, str | None] = {}
        for number, item in enumerate(change.files):
            data = item.before if side == "old" else item.after
            name = f"{number}_{os.path.basename(item.path)}"
            names[item.path] = name if data is not None else None
            if data is not None:
                (folder / side).mkdir(exist_ok=True)
                (folder / side / name).write_bytes(data)
        about[side] = names
    (folder / "counterexample.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    shutil.copyfile(Path(__file__).parent / "worker" / "show.py", folder / "show.py")
    result.counterexample = str(folder)
    result.reproduced = _shows(folder, limit)


def _regions(part: RegionVerdict, change: Change) -> dict[str, dict[str, object]]:
    """Where the function stands in each version."""
    old_path, _, old_name = part.key.partition("::")
    places = {
        "old": (old_path, part.old_line, old_name),
        "new": (part.path, part.line, part.name),
    }
    texts = {item.path: item.texts for item in change.files}
    found = {}
    for side, (path, line, name) in places.items():
        real = os.path.realpath(path)
        last = name.partition("#")[0].rpartition(".")[2]
        both = texts.get(real)
        text = both[side == "new"] if both else Path(real).read_text("utf-8")
        is_function = last in _defined_at(text, line)
        found[side] = {"path": real, "line": line, "class": "" if is_function else last}
    return found


def _defined_at(text: str, line: int) -> set[str]:
    """Names of the functions that begin on a line, their decorators counted."""
    return {
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and line in (node.lineno, *(item.lineno for item in node.decorator_list))
    }


def _inputs(
    folder: Path, change: Change, target: Target, root: str, part: RegionVerdict, limit: float
) -> None:
    """The inputs as a file; there is none where the difference is one of the whole program."""
    witness = part.witness
    assert witness is not None
    out = folder / "input.pt"
    out.unlink(missing_ok=True)
    if not part.key:
        return
    wanted = Wanted(
        target, root, change.base, part.key, witness.index, witness.inputs or "base", str(out)
    )
    with tempfile.TemporaryDirectory(prefix="gbfix-witness-") as scratch:
        spec = Path(scratch, "spec")
        spec.write_bytes(pickle.dumps(wanted))
        _quietly([sys.executable, "-P", "-m", "gbfix.worker.witness", str(spec)], limit, scratch)


def _shows(folder: Path, limit: float) -> bool | None:
    """Whether the script shows a difference; None where it did not run to its end."""
    done = _quietly([sys.executable, str(folder / "show.py")], limit, str(folder))
    if done is None or done.returncode not in (0, 1) or b"agree here" in done.stdout:
        return False if done is not None and done.returncode == 0 else None
    return b"The two differ." in done.stdout


def _quietly(words: list[str], limit: float, cwd: str) -> subprocess.CompletedProcess[bytes] | None:
    try:
        return subprocess.run(
            words,
            cwd=cwd,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
