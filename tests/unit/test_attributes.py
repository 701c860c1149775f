"""Who binds an attribute, over the texts of a program."""

from __future__ import annotations

import textwrap

import pytest

from gbfix.analysis.attributes import bound_by_init

NET = """
class Net(Base):
    def __init__(self, width):
        self.width = width

    def forward(self, x):
        return x * self.width
"""


@pytest.mark.parametrize(
    ("more", "alone"),
    [
        ("", True),
        ("class Other:\n    def __init__(self):\n        self.width = 3\n", True),
        ("class Sub(Net):\n    def __init__(self):\n        self.width = 3\n", False),
        (
            "class Mid(Net): ...\nclass Sub(Mid):\n    def __init__(self):\n"
            "        self.width = 3\n",
            False,
        ),
        ("Net(3).width = 4\n", False),
        # A base class binds it last, by name or by whatever it is given.
        ("class Base:\n    def __init__(self):\n        self.width = 3\n", False),
        ("class Base:\n    def put(self, k, v):\n        setattr(self, k, v)\n", False),
        ("class Other:\n    def set(self):\n        self.width = 3\n", False),
        ("class Other:\n    def __init__(self, net):\n        net.width = 3\n", False),
        ("def f(:", False),
    ],
)
def test_an_attribute_that_init_alone_binds(more: str, alone: bool) -> None:
    assert bound_by_init([NET, more], "Net", "width") is alone


@pytest.mark.parametrize(
    "inside", ["    width = 3\n", "    def set(self, k, v):\n        setattr(self, k, v)\n"]
)
def test_a_class_that_may_bind_it_otherwise(inside: str) -> None:
    assert not bound_by_init([textwrap.dedent(NET) + inside], "Net", "width")
