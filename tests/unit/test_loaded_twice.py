"""A file that two modules are made of: an operator has one name, and the names of the last."""

from __future__ import annotations

import pytest

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
