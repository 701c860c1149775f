"""A file that two modules are made of: an operator has one name, and the names of the last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import libcst as cst
import pytest
from gbfix_codemods.side_effects.state_to_op import StateToOp
from gbfix_codemods.wrap.own_state import keeps_state

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact
from gbfix.unseen import loaded_twice

_OLD = "import torch\n\nHISTORY = []\n\n\ndef f(x):\n    HISTORY.append(x.item())\n"
_NEW = """import torch

HISTORY = []


@torch.library.custom_op("train::keep_f", mutates_args=())
def keep_f(x: torch.Tensor) -> None:
    HISTORY.append(x.item())


def f(x):
    keep_f(x)
"""
_BY_PATH = 'spec = importlib.util.spec_from_file_location("again", "train.py")\n'


@pytest.mark.parametrize(
    ("text", "is_entry", "said"),
    [
        ("from train import f\n", True, True),
        ("import train\n", True, True),
        ("from .train import f\n", True, True),
        ("from train import f\n", False, False),
        ("import training\n", True, False),
        (_BY_PATH, False, True),
    ],
)
def test_files_that_load_it_again(text: str, is_entry: bool, said: bool) -> None:
    project = {"/p/train.py": _OLD, "/p/other.py": text}
    found = loaded_twice("/p/train.py", _OLD, _NEW, project, is_entry=is_entry)
    assert bool(found) == said
    assert all("`keep_f` uses `HISTORY`" in line for line in found)


def test_an_operator_without_names_of_its_module() -> None:
    new = _NEW.replace("HISTORY.append(x.item())", "print(x)")
    project = {"/p/train.py": _OLD, "/p/other.py": "import train\n"}
    assert loaded_twice("/p/train.py", _OLD, new, project, is_entry=True) == ()


def test_an_operator_with_the_name_of_its_module() -> None:
    new = _NEW.replace('"train::keep_f"', 'f"{__name__}::keep_f"')
    project = {"/p/train.py": _OLD, "/p/other.py": "import train\n"}
    assert loaded_twice("/p/train.py", _OLD, new, project, is_entry=True) == ()


_KEEPS = """import functools
import logging
import torch
from collections import Counter

HISTORY = []
KEPT = []
SAME = HISTORY
LEVELS = [1, 2, 3]
SCALE = 0.5
LOG = logging.getLogger("net")
OWN_LOG = logging.getLogger(__name__)
counts = Counter()
device = torch.device("cpu")


class Seen:
    once = False


def put(where, x):
    where.append(x)


def note(x):
    HISTORY.append(x)


@functools.cache
def say_once(text):
    print(text)


def scaled(x):
    return x * SCALE


def begin():
    Seen.once = True


def f(x):
    x.item()
    return x
"""


@pytest.mark.parametrize(
    ("line", "keeps"),
    [
        ("HISTORY.append(x.item())", True),
        ("note(x.item())", True),
        ("put(KEPT, x.item())", True),
        ("put(SAME, x.item())", True),
        ("OWN_LOG.info('x')", True),
        ("counts[0] += 1", True),
        ("Seen.once = True", True),
        ("say_once('x')", True),
        ("global SCALE\n    SCALE = 1.0", True),
        ("LOG.info('x')", False),
        ("print(scaled(x), LEVELS[0], device)", False),
        ("HISTORY = [x]\n    print(HISTORY)", False),
        ("print(x)", False),
    ],
)
def test_which_operators_have_the_name_of_their_module(line: str, keeps: bool) -> None:
    site = example_site(Example(_KEEPS, "", at="x.item()", title=""), "GB0124")
    text = f"def op(x):\n    {line}\n"
    assert keeps_state(site, list(cst.parse_module(text).body)) is keeps


_TWICE = """
import importlib.util, sys
import torch

def load(name):
    spec = importlib.util.spec_from_file_location(name, "program.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

one, two = load("one"), load("two")
for module in (one, two, one):
    module.loss(torch.ones(2))
    torch.compile(module.loss, backend="eager", fullgraph=True)(torch.ones(2))
print(len(one.HISTORY), len(two.HISTORY))
"""


def test_two_copies_of_a_file_keep_two_lists(tmp_path: Path) -> None:
    case = Example(
        "import torch\n\nHISTORY = []\n\n\ndef loss(x):\n    total = x.sum()\n"
        "    HISTORY.append(total.item())\n    return total\n",
        "",
        at="total.item()",
        facts={"total": tensor(), "total.item()": scalar(1.0), "HISTORY": Fact("list", "list")},
        title="",
    )
    made, *_ = StateToOp().propose(example_site(case, "GB0124"))
    assert isinstance(made, Rewrite)
    (tmp_path / "program.py").write_text(made.edits["example.py"])
    (tmp_path / "run.py").write_text(_TWICE)
    ran = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert ran.stdout.split() == ["4", "2"], ran.stderr
