"""Modules that are imported whole: which of Python's own names they hide."""

from __future__ import annotations

import builtins
import sys

import libcst as cst
import pytest

from gbfix.analysis.scopes import STAR_IMPORTS, resolve
from gbfix.analysis.tree import walk


@pytest.mark.parametrize("home", sorted(STAR_IMPORTS))
def test_what_an_import_of_all_names_hides(home: str) -> None:
    if not home.startswith("torch"):
        assert home in sys.stdlib_module_names
    names: dict[str, object] = {}
    exec(f"from {home} import *", names)
    hidden = {
        name
        for name, value in vars(builtins).items()
        if not name.startswith("__") and names.get(name, value) is not value
    }
    assert hidden == STAR_IMPORTS[home]


@pytest.mark.parametrize(
    ("line", "name", "found"),
    [
        ("from torch.optim import *", "float", "builtins.float"),
        ("from math import *", "pow", None),
        ("from math import *", "float", "builtins.float"),
        ("from .math import *", "float", None),
        ("from utils import *", "float", None),
        ("from typing import *\nfrom utils import *", "float", None),
    ],
)
def test_a_name_of_pythons_own(line: str, name: str, found: str | None) -> None:
    module = cst.parse_module(f"{line}\n\n\ndef f(x):\n    return {name}(x)\n")
    (call,) = (node for node in walk(module) if isinstance(node, cst.Call))
    assert resolve(module, call.func) == found
