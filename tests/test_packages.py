"""Breaks in installed packages: said by default, patched with ``--include``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gbfix import packages
from gbfix.words import ArgumentError

LAYER = """import torch


class Layer(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1
"""
PROGRAM = """
import sys

sys.path.insert(0, "lib/site-packages")
import torch
from toys.layer import Layer

model = torch.compile(Layer())
print(model(torch.ones(3)), model(-torch.ones(3)))
"""
#: The same, but the user's own code calls into the package.
WRAPPED = """
import sys

sys.path.insert(0, "lib/site-packages")
import torch
from toys.layer import Layer


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        return self.layer(x) * 2


model = torch.compile(Net())
print(model(torch.ones(3)), model(-torch.ones(3)))
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "lib" / "site-packages"
    (site / "toys" / "deep").mkdir(parents=True)
    (site / "toys" / "__init__.py").write_text("")
    (site / "toys" / "layer.py").write_text(LAYER)
    (site / "toys-1.2.dist-info").mkdir()
    (site / "toys-1.2.dist-info" / "METADATA").write_text("Name: toys\nVersion: 1.2\n")
    (site / "single.py").write_text("x = 1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    monkeypatch.syspath_prepend(str(site))
    for name in [name for name in sys.modules if name.split(".")[0] == "toys"]:
        monkeypatch.delitem(sys.modules, name)
    return site


@pytest.mark.parametrize(("source", "status"), [(PROGRAM, "outside"), (WRAPPED, "unfixed")])
def test_a_break_in_a_package_says_that_and_how(
    source: str, status: str, site: Path, gbfix_run: Any
) -> None:
    (found, *_) = gbfix_run(source).breaks
    assert found.status == status
    assert found.advice[0] == (
        "The code that breaks is in the installed package toys (layer.py, line 6), which gbfix "
        "leaves alone by default. With --include toys, it looks for a patch there, too."
    )


@pytest.mark.parametrize("source", [PROGRAM, WRAPPED], ids=["the package's", "the user's"])
def test_an_included_package_is_patched(source: str, site: Path, gbfix_run: Any) -> None:
    report = gbfix_run(source, include=("toys",), callers="any")
    assert [found.status for found in report.breaks] == ["fixed"], report
    (patch,) = report.patches
    assert patch.path == str(site / "toys" / "layer.py")
    assert patch.diff.startswith("--- a/toys/layer.py\n+++ b/toys/layer.py\n")
    assert (report.include, report.callers) == (("toys",), "any")
    assert patch.path in report.files
    assert (site / "toys" / "layer.py").read_text() == LAYER


def test_from_patch_to_overlay_and_back(site: Path, tmp_path: Path) -> None:
    """As docs/packages.md tells it."""
    script = tmp_path / "main.py"
    # The package is found through the environment here, as an installed one is.
    script.write_text(PROGRAM.replace('sys.path.insert(0, "lib/site-packages")', ""))
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "300"}

    def gbfix(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gbfix", *words]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300
        )

    done = gbfix("--no-cache", "--include", "toys", "--apply", "main.py")
    assert done.returncode == 1
    assert "belongs to an installed package, where gbfix does not write; --save DIR" in done.stderr
    # The table and the closing line agree on what was not written, and say how to go on.
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("Layer "))
    assert row.split()[2:] == ["unfixed", "1", "2"]
    assert "Found 1 graph break in 1 region: 0 fixed, 1 left" in done.stdout
    assert "gbfix --save overlay --include toys --no-cache main.py" in done.stdout
    words = ("--include", "toys", "--save", "over", "--format", "json", "main.py")
    done = gbfix("--no-cache", *words)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["include"] == ["toys"] and report["callers"] == "any"
    assert "saved as an overlay in" in done.stderr
    assert (site / "toys" / "layer.py").read_text() == LAYER
    done = gbfix("run", "--overlay", "over", "main.py")
    assert done.stdout == "tensor([2., 2., 2.]) tensor([-2., -2., -2.])\n", done.stderr
    done = gbfix("overlay", "check", "over")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "toys/layer.py: fits" in done.stdout and "passed  outputs" in done.stdout
    done = gbfix("overlay", "show", "over")
    assert done.stdout.startswith("--- a/toys/layer.py\n")


WRONG = {
    "a distribution": ("scikit-learn", "is no name of a package; write it as an import does"),
    "not installed": ("surely_not_there", "no such package is installed beside gbfix"),
    "no such part": ("toys.nowhere", "no such package is installed"),
    "torch": ("torch", "gbfix works with torch, not on it"),
    "gbfix": ("gbfix.worker", "gbfix does not patch itself"),
    "standard library": ("json", "is a part of Python"),
    "built in": ("sys", "no such package is installed"),
}


@pytest.mark.parametrize("what", WRONG, ids=str)
def test_a_wrong_name_is_one_clear_line(what: str, site: Path) -> None:
    name, says = WRONG[what]
    with pytest.raises(ArgumentError) as error:
        packages.find(name)
    assert says in str(error.value) and str(error.value).startswith(f"--include {name}: ")


@pytest.mark.parametrize("name", ["toys", "toys.layer", "toys.deep", "single"])
def test_packages_and_their_parts(name: str, site: Path) -> None:
    found = packages.find(name)
    assert found.root == str(site)
    assert found.places[0].startswith(str(site / name.split(".")[0]))
    assert packages.of(found.places[0]) == (str(site), name.split(".")[0])


def test_a_package_is_found_without_being_imported(site: Path) -> None:
    (site / "toys" / "__init__.py").write_text("raise SystemExit('imported')\n")
    assert packages.find("toys.layer").version == "1.2"
    assert "toys" not in sys.modules
