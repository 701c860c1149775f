"""What gbfix costs where the program takes long to build its model.

    python benchmarks/heavy.py [--seconds 10] [--candidates 10]

A script with one small region sleeps for ten seconds first.  Timed are: the script alone, a whole
``gbfix --diff`` that fixes its break, and the same with a codemod that proposes rewrites which
break again.  Printed are starts of the program (from its own count), seconds beyond these starts,
and seconds for each failing candidate, beside what they were from the start (``HEAVY`` out of
reach).

Set-up is paid twice, side by side with a second run: once to record, once to confirm all patches
from the start.  On two cores, with ten seconds of set-up, forty failing candidates and one that
holds took 35.5 s in all, where the script alone takes 25.8 s (most of it importing torch and
compiling): 0.08 s for each failing candidate, as the next one's trial runs beside the one at hand
(0.19 s before), and 3.23 times the set-up for the rest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = """
import time

import torch

time.sleep(SECONDS)


@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


f(torch.ones(3))
f(-torch.ones(3))
"""

PLUGIN = '''
import dataclasses
import sys

import libcst as cst

from gbfix import bench, codemod, loop
from gbfix.runner import Runner

bench.HEAVY = HEAVY
starts = []
run = Runner.run


def counted(self, job, *args, **kwargs):
    starts.append(job.mode)
    return run(self, job, *args, **kwargs)


Runner.run = counted


class Failing(codemod.Codemod):
    """Proposes COUNT rewrites that break again, to price a candidate."""

    name = "failing"
    codes = ("GB0170",)

    def propose(self, site):
        for number in range(COUNT):
            edit = site.edit()
            edit.insert_before(site.statement, cst.parse_statement(f"y = {number}"))
            yield dataclasses.replace(edit.rewrite(f"number {number}"), rank=-1000 + number)


found = loop.discover()
loop.discover = lambda: [Failing(), *found]
from gbfix.cli import main

main()
print(len(starts), file=sys.stderr)
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--candidates", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "GBFIX_CACHE_DIR": str(folder / "cache")}
        script = SCRIPT.replace("SECONDS", str(given.seconds))
        (folder / "program.py").write_text(script)
        started = time.perf_counter()
        subprocess.run([sys.executable, "program.py"], cwd=folder, env=environment, check=True)
        alone = time.perf_counter() - started
        print(f"the script alone takes {alone:.1f} s, {given.seconds:g} s of it set-up")
        for label, heavy in (("at the recorded calls", 1.5), ("from the start", 1e9)):
            spent = {}
            for count in (0, given.candidates):
                text = PLUGIN.replace("COUNT", str(count)).replace("HEAVY", str(heavy))
                text = text.replace(f"bench.{heavy}", "bench.HEAVY")
                (folder / "plugin.py").write_text(text)
                command = [sys.executable, "plugin.py", "--no-cache", "--diff", "program.py"]
                started = time.perf_counter()
                result = subprocess.run(
                    command, cwd=folder, env=environment, capture_output=True, text=True
                )
                spent[count] = time.perf_counter() - started
                starts = int(result.stderr.strip().splitlines()[-1])
                if "torch.where" not in result.stdout:
                    sys.exit(f"no fix was found:\n{result.stderr}")
                print(
                    f"{label}: {count} failing candidates and one that holds: "
                    f"{spent[count]:.1f} s, {starts} starts, two side by side"
                )
            each = (spent[given.candidates] - spent[0]) / given.candidates
            times = spent[0] / given.seconds
            print(f"{label}: {times:.2f} x the set-up, {each:.2f} s for each failing candidate")


if __name__ == "__main__":
    main()
