"""Applies patches (or undoes them) and kills itself with SIGKILL at the n-th step.

``python apply_driver.py apply|undo FOLDER N PATH...``: each file's text gets ``# new`` appended.
Exit status 0 means that there were fewer than N steps.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from gbfix import journal
from gbfix.schema import Patch, Safety, Verdict
from gbfix.source import SourceFile


def main() -> None:
    action, folder, number, *paths = sys.argv[1:]
    left = int(number)

    def step(name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            print(name, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    if action == "undo":
        journal.undo(Path(folder), step=step)
        return
    patches = []
    for path in paths:
        text = SourceFile.read(path).text
        patches.append(Patch(path, "", text, text + "# new\n", (), (), Safety.SAFE, Verdict()))
    journal.apply(patches, Path(folder), step=step)


main()
