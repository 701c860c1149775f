"""`--repro`: a script for each break that stays, which breaks in the same way."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gbfix import engine, repro
from gbfix.runner import Runner
from gbfix.schema import Options, Target

PROGRAM = """
import argparse
import sys

import torch
import torch.nn as nn

import parts

SCALE = 2.0
UNUSED = [print("never") for _ in range(0)]


def helper(x):
    # Which way depends on the data.
    torch._dynamo.graph_break()
    return x * SCALE


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.part = parts.Part()

    def forward(self, x, *, twice=False):
        x = self.part(self.layer(x))
        return helper(x) * (2 if twice else 1)


@torch.compile
def f(x):
    return helper(x)


if __name__ == "__main__":
    print("program", sys.argv)
    net = torch.compile(Net())
    print(net(torch.ones(2, 3), twice=True).shape, f(torch.ones(2)))
    print(torch.compile(parts.g)(torch.ones(2)))
"""
PARTS = """
import torch


class Part(torch.nn.Module):
    def forward(self, x):
        return x + 1


def g(x):
    torch._dynamo.graph_break()
    return x
"""


def test_each_break_that_stays_gets_a_script(tmp_path: Path, runner: Runner) -> None:
    (tmp_path / "main.py").write_text(PROGRAM)
    (tmp_path / "parts.py").write_text(PARTS)
    target = Target("script", "main.py", cwd=str(tmp_path))
    options = Options(use_cache=False, check_only=True)
    report = engine.run(target, options, runner=runner)
    folder = tmp_path / "repro"
    written = repro.write(report, target, options, folder)
    assert {Path(item.path).name: item.problem for item in written} == {
        "gb0025_net.py": "",
        "gb0025_f.py": "",
        "gb0025_g.py": "",
    }
    text = (folder / "gb0025_net.py").read_text()
    assert "SCALE = 2.0" in text and "# Which way depends on the data." in text
    assert "argparse" not in text and "never" not in text and "import torch.nn as nn" in text
    assert text.startswith('"""GB0025 ') and "in helper:" in text
    done = subprocess.run(
        [sys.executable, str(folder / "gb0025_g.py")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1 and "graph_break" in done.stderr
    assert "from user code" in done.stderr


NEEDED = {
    "a function and what it calls": (
        "import math\nimport torch\n\nA = 1\nB = 2\n\ndef g(x):\n    return x * A\n\n"
        "def f(x):\n    return g(math.sin(x))\n\nprint(f(1))\n",
        {"f"},
        "import math\nA = 1\n\n\ndef g(x):\n    return x * A\n\n\ndef f(x):\n"
        "    return g(math.sin(x))\n",
    ),
    "bases and decorators": (
        "def deco(c):\n    return c\n\nclass A:\n    pass\n\n@deco\nclass B(A):\n    x = 1\n",
        {"B"},
        "def deco(c):\n    return c\n\n\nclass A:\n    pass\n\n\n@deco\nclass B(A):\n    x = 1\n",
    ),
    "choices at import": (
        "try:\n    import fast as m\nexcept ImportError:\n    m = None\n\ndef f():\n    return m\n",
        {"f"},
        "try:\n    import fast as m\nexcept ImportError:\n    m = None\n\n\n"
        "def f():\n    return m\n",
    ),
}


@pytest.mark.parametrize("what", NEEDED, ids=str)
def test_what_a_script_needs_of_a_file(what: str) -> None:
    text, roots, wanted = NEEDED[what]
    assert repro._needed(textwrap.dedent(text), roots).strip() == wanted.strip()


def test_the_head_of_a_script_has_no_listing_of_files_elsewhere(tmp_path: Path) -> None:
    from reports import unfixed

    (found,) = unfixed(tmp_path / "m.py").breaks
    why = 'Detected branching. A tensor of: # File "/home/me/site-packages/toys/x.py", line 6 in f'
    found.graph_break = dataclasses.replace(found.graph_break, explanation=why)
    text = repro._docstring(found)
    assert "Detected branching." in text and "/home/me" not in text


def test_a_file_in_the_way_is_one_clear_line(tmp_path: Path) -> None:
    from reports import unfixed

    out = tmp_path / "out"
    out.write_text("")
    with pytest.raises(repro.ReproError, match=r"--repro .*out: is a file; name a folder"):
        repro.write(unfixed(tmp_path / "m.py"), Target("script", "m.py"), Options(), out)
