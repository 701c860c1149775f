"""Where no gradient can come to what a function computes: itself or its callers turn them off."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest
from gbfix_codemods.control_flow.sites import surely_without_gradients

from gbfix.analysis.tree import walk
from gbfix.codemod import Site
from gbfix.schema import Frame, FrameFacts, GraphBreak

_HELPER = """
import torch

def solve(x):
    for i in range(4):
        x = x - x.exp()
    return x
"""


def _site(more: str, others: dict[str, str] | None = None) -> tuple[Site, cst.CSTNode]:
    source = _HELPER + textwrap.dedent(more)
    line = source[: source.index("x = x - x.exp()")].count("\n") + 1
    frame = Frame("net.py", line, "solve", in_project=True)
    found = GraphBreak("GB0170", "", "", "", (), (frame,), "net.py::solve", frame)
    sources = {"net.py": source, **(others or {})}
    site = Site("net.py", source, found, FrameFacts(), sources=sources)
    loop = next(node for node in walk(site.module) if isinstance(node, cst.For))
    return site, loop


_OFF = "class Head:\n    @torch.no_grad()\n    def sample(self, x):\n        return solve(x)\n"


@pytest.mark.parametrize(
    ("more", "off"),
    [
        (_OFF, True),
        ("def sample(x):\n    with torch.no_grad():\n        return solve(x)\n", True),
        ("def inner(x):\n    return solve(x)\n\n@torch.inference_mode()\ndef f(x):\n"
         "    return inner(x)\n", True),
        ("", False),  # nobody calls it here
        (_OFF + "\ndef loss(x):\n    return solve(x).sum()\n", False),
        (_OFF + "\nSOLVERS = [solve]\n", False),
        (_OFF + "\nNAME = 'solve'\n", False),
        (_OFF + "\nprint(solve(torch.ones(2, requires_grad=True)))\n", False),
        (_OFF.replace("return", "with torch.enable_grad(): return"), False),
        (_OFF.replace("solve(x)", "(lambda: solve(x))"), False),
        ("@register\ndef sample(x):\n    return solve(x)\n", False),
    ],
)  # fmt: skip
def test_who_turns_gradients_off(more: str, off: bool) -> None:
    assert surely_without_gradients(*_site(more)) is off


def test_another_file_may_call_it_as_it_likes() -> None:
    assert not surely_without_gradients(*_site(_OFF, {"train.py": "from net import solve\n"}))
