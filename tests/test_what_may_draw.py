"""What is called in an arm of a choice may draw random numbers: the project's texts tell."""

from __future__ import annotations

import pytest

from gbfix.codemod import Example, Site, example_site
from gbfix.rewriting.modules import may_draw
from gbfix.rewriting.project import is_replaced

_SOURCE = """import torch
from torch import nn
from torch.nn import Linear
from torchvision import models


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = {layer}


class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = Up()
        self.head = nn.Linear(2, 2)
        {more}

    def forward(self, x):
        return self.up(x) if x.sum() > 0 else self.head(x)
"""


def _site(layer: str, more: str = "") -> Site:
    source = _SOURCE.format(layer=layer, more=more)
    return example_site(Example(source, "", at="x.sum()"), "GB0170")


@pytest.mark.parametrize(
    ("layer", "more", "called", "draws"),
    [
        ("nn.Dropout(0.1)", "", "self.up", True),
        ("nn.Dropout(0.1)", "", "self.up(x)", True),
        ("nn.Dropout(0.1)", "", "self.head", False),
        ("nn.RReLU()", "", "self.up", True),
        ("nn.TransformerEncoderLayer(2, 1)", "", "self.up", True),
        ("nn.ReLU()", "", "self.up", False),
        ("nn.ReLU()", "self.drop = nn.Dropout()", "self.up", False),
        ("models.vgg11()", "", "self.up", True),  # nobody has read that
        ("Linear(2, 2)", "", "self.up", False),
        # It is not known what that is: anything of the project.
        ("nn.ReLU()", "self.drop = nn.Dropout()", "layer(x)", True),
        ("nn.ReLU()", "", "layer(x)", False),
    ],
)
def test_layers_are_followed_into_the_classes_that_make_them(
    layer: str, more: str, called: str, draws: bool
) -> None:
    assert may_draw(_site(layer, more), {called}) is draws


@pytest.mark.parametrize(
    ("more", "replaced"),
    [
        ("", False),
        ("class A:\n    def __init__(self):\n        self.smooth = nn.Linear(2, 2)\n", False),
        ("net.smooth = other\n", True),
        ('setattr(net, "smooth", other)\n', True),
        ('object.__setattr__(net, "smooth", other)\n', True),
        ('with patch("main.smooth", other):\n    pass\n', True),
        ('with patch.object(net, "smooth"):\n    pass\n', True),
        ('print(getattr(net, "smooth"))\n', False),
        ("for name in names:\n    setattr(module, name, other)\n", True),
        ("for name in names:\n    setattr(config, name, other)\n", False),
        ('setattr(module, "rough", other)\n', False),
    ],
)
def test_what_stands_in_for_a_function(more: str, replaced: bool) -> None:
    source = f"def f(x):\n    return x.sum()\n\n\n{more}"
    site = example_site(Example(source, source, at="x.sum()"), "GB0170")
    assert is_replaced(site, "smooth") is replaced
