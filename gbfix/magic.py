"""``%load_ext gbfix.magic``, then ``%%gbfix`` above a cell: its breaks and fixes, below the cell.

The cells that were run before are run again with it, in a process of their own: nothing in the
notebook's kernel changes.  Words behind ``%%gbfix`` are options (``%%gbfix --unsafe-fixes``).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any


def load_ipython_extension(ipython: Any) -> None:
    """Called by IPython."""

    def run_gbfix(line: str, cell: str) -> None:
        before = [text for text in ipython.history_manager.input_hist_raw if text.strip()]
        try:
            print(report([*before[:-1], cell], shlex.split(line), os.getcwd()))
        except (OSError, ValueError) as error:
            print(f"error: %%gbfix {line}: {error}; the cell runs all the same")
        ipython.run_cell(cell)

    ipython.register_magic_function(run_gbfix, "cell", "gbfix")


def report(cells: Sequence[str], options: Sequence[str], folder: str) -> str:
    """What gbfix says of these cells as one program."""
    kept = [text for cell in cells if (text := _without_us(cell)).strip()]
    with tempfile.NamedTemporaryFile(
        "w", prefix=".cells-", suffix=".ipynb", dir=folder, encoding="utf-8"
    ) as file:
        json.dump(_notebook(kept), file, indent=1)
        file.flush()
        name = os.path.basename(file.name)
        done = subprocess.run(
            [sys.executable, "-m", "gbfix", *options, name],
            cwd=folder,
            capture_output=True,
            text=True,
        )
    return (done.stdout + done.stderr).replace(f"{name} (cell", "(cell").replace(name, "notebook")


def _without_us(cell: str) -> str:
    """A cell without the lines that are about gbfix itself."""
    ours = ("%%gbfix", "%load_ext gbfix", "%reload_ext gbfix")
    return "\n".join(line for line in cell.split("\n") if not line.lstrip().startswith(ours))


def _notebook(cells: Sequence[str]) -> dict[str, Any]:
    return {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"c{number}",
                "metadata": {},
                "outputs": [],
                "source": text,
            }
            for number, text in enumerate(cells)
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
