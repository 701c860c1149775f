"""Where a region is compiled, and whether what is compiled is only called."""

from __future__ import annotations

import pytest
from gbfix_codemods.config.compiling import compiling

from gbfix.codemod import RecordedFacts, Site
from gbfix.schema import Frame, FrameFacts, GraphBreak, Region

HEAD = """\
import torch


def f(x):
    return x.item()


"""


def is_only_called(script: str) -> bool:
    source = HEAD + script
    line = source.split("\n").index(next(it for it in source.split("\n") if "torch.comp" in it)) + 1
    frame = Frame("example.py", 5, "f", 11, 5, 19, "x.item()")
    found = GraphBreak("GB0124", "", "", "", (), (frame,), "r", frame)
    region = Region("f", "example.py", 4, "example.py", line)
    site = Site("example.py", source, found, RecordedFacts(FrameFacts()), region=region)
    site.entry = "example.py"
    place = compiling(site)
    assert place is not None
    return place.only_called() is not None


@pytest.mark.parametrize(
    "script",
    [
        "g = torch.compile(f)\ng(1)\n",
        "f.eval()\nf = torch.compile(f)\nprint(f(1))\n",
        "def main(g):\n    g.eval()\n    g = torch.compile(g)\n    g(1)\n\n\nmain(f)\n",
        "def main(g):\n    h = g\n    if g:\n        h = torch.compile(h)\n    h(1)\n",
        "h = f\nif __name__ == '__main__':\n    h.eval()\n    h = torch.compile(h)\n    h(1)\n",
        "for f in (f, f):\n    f.eval()\nf = torch.compile(f)\nf(1)\n",
    ],
)
def test_only_called(script: str) -> None:
    assert is_only_called(script)


@pytest.mark.parametrize(
    "script",
    [
        "g = torch.compile(f)\nprint(g)\n",
        "g = torch.compile(f)\ng.eval()\ng(1)\n",
        "def late():\n    f.eval()\n\n\nf = torch.compile(f)\nf(1)\nlate()\n",
        "late = lambda: f.eval()\nf = torch.compile(f)\nf(1)\nlate()\n",
        "for n in range(2):\n    f.eval()\n    f = torch.compile(f)\n    f(1)\n",
        "def main():\n    global f\n    f.eval()\n    f = torch.compile(f)\n    f(1)\n\n\nmain()\n",
        "if f:\n    f = torch.compile(f)\nelse:\n    f.eval()\nf(1)\n",
        "if f:\n    f = torch.compile(f)\nf.eval()\nf(1)\n",
        "def main(g):\n    h = lambda: g.eval()\n    g = torch.compile(g)\n    g(h())\n",
    ],
)
def test_others_see_it(script: str) -> None:
    assert not is_only_called(script)
