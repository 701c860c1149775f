"""Numbers that a program reads from tensors, and whether one may become a size."""

from __future__ import annotations

import pytest
from gbfix_codemods.config.numbers_used import NumbersUsed

HEAD = "@torch.compile\ndef f(self, x, d):\n"


@pytest.mark.parametrize(
    "lines",
    [
        "self.n = x.item()",
        "self.log.append(x.item())\n    return sum(self.log) / len(self.log) > 2",
        "logs = {}\n    logs['n'] = x.item()\n    print(logs['n'], f'{logs}')",
        "logs = {'n': x.item(), 'm': 3}\n    y = x[: logs['m']]",
        "self.a, self.b = x.item(), 3",
        "for i, v in enumerate(x.tolist()):\n        y = x > v",
    ],
)
def test_kept_numbers_are_no_sizes(lines: str) -> None:
    assert not NumbersUsed([HEAD + "    " + lines], ()).sizes()


@pytest.mark.parametrize(
    "lines",
    [
        "y = x[: x.item()]",
        "self.n = x.item()\n    y = x[: self.n]",
        "self.n, self.m = x.item(), 3\n    y = x[: self.n]",
        "sizes = []\n    sizes.append(x.item())\n    y = x.split(sizes)",
        "self.sizes.extend(x.tolist())\n    y = x.view(self.sizes)",
        "logs = {}\n    logs['n'] = x.item()\n    y = x[: logs['n']]",
        "logs = {'n': x.item()}\n    y = x.new_zeros(logs['n'])",
        "for n in x.tolist():\n        y = x[n]",
        "if (n := x.item()) > 2:\n        y = x[n]",
        "yield x.item()",
        "for i, v in enumerate(x.tolist()):\n        y = x[:v]",
        "global n\n    n = x.item()\n    return g(x)\n\ndef g(x):\n    return x[:n]",
        "return g(x)\n\ndef g(x):\n    return x.item()",
        "d = g(x)\n    return x[: d['n']]\n\ndef g(x):\n    return {'n': x.item()}",
        "ns = [v for v in x.tolist()]\n    return x.split(ns)",
        "n: int = int(x.sum())\n    return x[:n]",
    ],
)
def test_numbers_that_become_sizes(lines: str) -> None:
    assert NumbersUsed([HEAD + "    " + lines], ()).sizes()


def test_what_no_region_reaches_reads_as_before() -> None:
    text = HEAD + "    return x\n\ndef main():\n    print(y[: y.sum().item()])\n"
    assert not NumbersUsed([text], ()).sizes()
    assert NumbersUsed([text], {"main"}).sizes()


def test_one_place_may_be_known() -> None:
    text = HEAD + "    return x.item()\n"
    assert NumbersUsed([text], ()).sizes()
    assert not NumbersUsed([text], ()).sizes((text, 3, 11), leaves=True)
    text = HEAD + "    self.n = x.item(); return x[: self.n]\n"
    assert NumbersUsed([text], ()).sizes((text, 3, 13), leaves=True)
    assert not NumbersUsed([text], ()).sizes((text, 3, 13))
