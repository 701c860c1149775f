"""What the text says of the modules that an object holds."""

from __future__ import annotations

import libcst as cst
import pytest
from gbfix_codemods.data_dependent.masked_chain import MaskedChain

from gbfix.codemod import Example, Site, example_site
from gbfix.rewriting.modules import is_always

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
