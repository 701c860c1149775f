"""Rewrites that belong in another file than the break."""

from __future__ import annotations

import ast

import pytest
from gbfix_codemods.api.allow_rnn import AllowRnn
from gbfix_codemods.api.list_iterator import PassTheList
from gbfix_codemods.config.region_option import RegionOption

from gbfix.codemod import Advice, Rewrite, Site, StatedFacts
from gbfix.schema import Fact, Frame, GraphBreak, Region

LAYERS = """\
import torch


class Encoder(torch.nn.Module):
    def forward(self, x):
        return self.rnn(x)[0]
"""
MAIN = """\
import torch
from layers import Encoder

net = Encoder()
net.compile(backend="eager")
"""


def _break(path: str, line: int, column: int, end: int, context: str, code: str) -> GraphBreak:
    frame = Frame(path, line, "forward", column, line, end)
    return GraphBreak(code, "", "", context, (), (frame,), "region", frame)


@pytest.mark.parametrize(("layer", "safety"), [("GRU(3, 4)", "safe"), ("LSTM(3, 4)", "safe")])
def test_the_option_is_set_where_the_module_is_compiled(layer: str, safety: str) -> None:
    site = Site(
        "layers.py",
        LAYERS,
        _break("layers.py", 6, 15, 26, layer, "GB0014"),
        StatedFacts({}),
        region=Region("Encoder", "layers.py", 5, "main.py", 5),
        sources={"layers.py": LAYERS, "main.py": MAIN},
        entry="main.py",
    )
    (rewrite,) = [item for item in AllowRnn().propose(site) if isinstance(item, Rewrite)]
    assert list(rewrite.edits) == ["main.py"]
    text = rewrite.edits["main.py"]
    ast.parse(text)
    line = "torch._dynamo.config.allow_rnn = True\n"
    assert text == MAIN.replace("net.compile", line + "net.compile")
    assert rewrite.safety == safety


READS = """\
import torch


class Encoder(torch.nn.Module):
    def forward(self, x):
        return x * x.sum().item()
"""
COMMENT = "# Before: torch._dynamo.config.capture_scalar_outputs = True\n"


@pytest.mark.parametrize("spoken_of_in", ["library.py", "main.py"])
def test_an_option_of_which_another_file_speaks_can_be_set(spoken_of_in: str) -> None:
    """A comment in a library is no setting; where the option would go, it may be one."""
    sources = {"layers.py": READS, "main.py": MAIN, "library.py": "import torch\n"}
    sources[spoken_of_in] = COMMENT + sources[spoken_of_in]
    site = Site(
        "layers.py",
        READS,
        _break("layers.py", 6, 19, 33, "x.sum().item()", "GB0124"),
        StatedFacts({}),
        region=Region("Encoder", "layers.py", 5, "main.py", 5 + (spoken_of_in == "main.py")),
        sources=sources,
        entry="main.py",
    )
    found = [item for item in RegionOption().propose(site) if isinstance(item, Rewrite)]
    assert [list(item.edits) for item in found] == [["main.py"]] * (spoken_of_in != "main.py")


FUNCTION = """\
import torch


@torch.compile
def f(xs):
    return list(xs), list(xs)


f(iter([1, 2]))
"""


@pytest.mark.parametrize(
    ("other", "proposed"), [("import g\n", True), ("from a import f\n\nf([1])\n", False)]
)
def test_a_function_that_others_call_keeps_taking_what_it_took(other: str, proposed: bool) -> None:
    site = Site(
        "a.py",
        FUNCTION,
        _break("a.py", 6, 11, 19, "", "GB0811"),
        StatedFacts({"xs": Fact("iterator", "list_iterator")}),
        sources={"a.py": FUNCTION, "b.py": other},
    )
    made = list(PassTheList().propose(site))
    assert any(isinstance(item, Rewrite) for item in made) == proposed
    assert any(isinstance(item, Advice) for item in made) != proposed
