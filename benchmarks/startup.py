"""What gbfix costs before, around and instead of running a program; ratios within one run.

    python benchmarks/startup.py [--rounds 5]

Prints a table of medians: commands that need no torch against ``import click, rich``; a whole
``gbfix --diff`` of a one-break script against the floor (python imports torch, runs the script
once eagerly and once under ``torch.compile(backend="eager", fullgraph=True)``); each further
candidate; a repeated ``--diff`` answered from the cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BREAKING = """
import torch


@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


print(f(torch.ones(3)))
"""

# The floor does by hand what gbfix must do at the least: the program is already fixed.
FLOOR = """
import torch


def f(x):
    return torch.where(x.sum() > 0, x + 1, x - 1)


print(f(torch.ones(3)))
print(torch.compile(f, backend="eager", fullgraph=True)(torch.ones(3)))
"""

PLUGIN = '''
import dataclasses

import libcst as cst

from gbfix import codemod, loop


class Failing(codemod.Codemod):
    """Proposes COUNT rewrites that break again, to price a candidate."""

    name = "failing"
    codes = ("GB0170",)

    def propose(self, site):
        for number in range(COUNT):
            edit = site.edit()
            edit.insert_before(site.statement, cst.parse_statement(f"y = {number}"))
            yield dataclasses.replace(edit.rewrite(f"number {number}"), rank=number)


loop.discover = lambda: [Failing()]
from gbfix.cli import main

main()
'''


def seconds(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    python = sys.executable
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "GBFIX_CACHE_DIR": str(folder / "cache")}
        (folder / "breaking.py").write_text(BREAKING)
        (folder / "floor.py").write_text(FLOOR)
        for count in (1, 6):
            (folder / f"plugin{count}.py").write_text(PLUGIN.replace("COUNT", str(count)))
        gbfix = [python, "-m", "gbfix"]
        commands = {
            "import click, rich": [python, "-c", "import click, rich"],
            "gbfix --help": [*gbfix, "--help"],
            "gbfix explain GB0170": [*gbfix, "explain", "GB0170"],
            "gbfix codes": [*gbfix, "codes"],
            "floor": [python, "floor.py"],
            "gbfix --diff, no cache": [*gbfix, "--no-cache", "--diff", "breaking.py"],
            "gbfix --diff, from the cache": [*gbfix, "--diff", "breaking.py"],
            "1 failing candidate": [python, "plugin1.py", "--no-cache", "breaking.py"],
            "6 failing candidates": [python, "plugin6.py", "--no-cache", "breaking.py"],
        }
        # Once unmeasured: bytecode caches, the disk's cache, and gbfix's own.
        for command in commands.values():
            seconds(command, folder, environment)
        times: dict[str, list[float]] = {label: [] for label in commands}
        for _ in range(rounds):
            for label, command in commands.items():
                times[label].append(seconds(command, folder, environment))
    median = {label: statistics.median(values) for label, values in times.items()}
    print(f"{'command':32} {'median':>8} {'spread':>15}  ratio")
    for label, values in times.items():
        base = "floor" if "diff" in label else "import click, rich"
        ratio = f"{median[label] / median[base]:.2f} x {base}"
        if label in ("floor", "import click, rich") or "candidate" in label:
            ratio = ""
        print(f"{label:32} {median[label]:7.2f}s {min(values):6.2f}-{max(values):6.2f}s  {ratio}")
    each = (median["6 failing candidates"] - median["1 failing candidate"]) / 5
    print(f"each further candidate that fails: {each:.2f} s")


if __name__ == "__main__":
    main()
