"""What the text says of the modules that an object holds."""

from __future__ import annotations

import ast

import libcst as cst
import pytest
from gbfix_codemods.data_dependent.masked_chain import MaskedChain

from gbfix.codemod import Example, Site, example_site
from gbfix.rewriting.modules import given, is_always
from gbfix.rewriting.project import home_of

_MADE = "nn.Linear(4, 1)"


def _site(made: str, more: str = "") -> Site:
    source = (
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self, head):\n"
        f"        self.head = {made}\n\n    def forward(self, x):\n"
        f"        return self.head(x)\n{more}"
    )
    return example_site(Example(source, "", at="self.head(x)", title=""), MaskedChain.codes[0])


@pytest.mark.parametrize(
    ("made", "more", "sure"),
    [
        (_MADE, "", True),
        ("head", "", False),
        ("head or nn.Linear(4, 1)", "", False),
        ("nn.BatchNorm1d(4)", "", False),
        (_MADE, "\n\ndef swap(net):\n    net.head = nn.Identity()\n", False),
        (_MADE, "\n\nclass Other(nn.Module):\n    def __init__(self):\n"
                "        self.head = nn.Dropout()\n", True),
        (_MADE, "\n\nclass Deep(Net):\n    def __init__(self):\n"
                "        self.head = nn.Dropout()\n", False),
        (_MADE, "\n\nclass Deep(Net):\n    def __init__(self):\n"
                "        self.head = nn.Linear(3, 3)\n", True),
        (_MADE, "\n\ndef look(net):\n    net.register_forward_hook(print)\n", False),
    ],
)  # fmt: skip
def test_whether_a_layer_is_the_same_in_every_instance(made: str, more: str, sure: bool) -> None:
    site = _site(made, more)
    call = site.node
    assert isinstance(call, cst.Call)
    assert is_always(site, call.func, {"Linear", "ReLU"}) is sure


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("net = Net(nn.Linear(4, 1))\n", ["nn.Linear(4, 1)"]),
        ("net = Net(head=nn.Linear(4, 1))\n", ["nn.Linear(4, 1)"]),
        ("one = nn.ReLU()\nnet = Net(one)\n", ["nn.ReLU()"]),
        ("a, b = Net(nn.ReLU()), Net(nn.Tanh())\n", ["nn.ReLU()", "nn.Tanh()"]),
        ("one = nn.ReLU()\none = nn.Dropout()\nnet = Net(one)\n", ["nn.ReLU()", "nn.Dropout()"]),
        ("", None),
        ("net = Net(*parts)\n", None),
        ("net = Net()\n", None),
        ("for one in parts:\n    net = Net(one)\n", None),
        ("def make(one):\n    return Net(one)\n", None),
        ("net = Net(nn.ReLU())\nmake(Net)\n", None),
        ("net = Net(nn.ReLU())\n\n\nclass Deep(Net):\n    pass\n", None),
    ],
)
def test_what_a_constructor_gets(more: str, expected: list[str] | None) -> None:
    found = given(_site("head", f"\n\n{more}"), "Net", "head")
    texts = None if found is None else sorted(map(ast.unparse, found))
    assert texts == (None if expected is None else sorted(expected))


def test_the_file_of_a_dotted_name() -> None:
    base = _site("head")
    site = Site(
        "example.py",
        base.source,
        base.graph_break,
        base.facts,
        sources={"example.py": base.source, "pkg/losses.py": "", "pkg/__init__.py": ""},
        entry="example.py",
    )
    assert home_of(site, "__main__.part") == ("example.py", "part")
    assert home_of(site, "example.Net.forward") == ("example.py", "Net.forward")
    assert home_of(site, "pkg.losses.dice") == ("pkg/losses.py", "dice")
    assert home_of(site, "losses.dice") == ("pkg/losses.py", "dice")
    assert home_of(site, "torch.sort") == ("", "")
