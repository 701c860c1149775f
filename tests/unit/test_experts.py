"""Whether a token that chose one expert twice counts as it did, in a loop that became dense."""

from __future__ import annotations

import pytest
from gbfix_codemods.choice.loops_experts import ExpertsToDense

from gbfix.codemod import Example, Rewrite, example_site, tensor
from gbfix.schema import Fact, Safety

SOURCE = """
import torch


class Experts(torch.nn.Module):
    def forward(self, states, choice, weights):
        result = torch.zeros_like(states)
        for number, expert in enumerate(self.experts):
            row, place = torch.where(choice == number)
            {}
        return result
"""
FACTS = {
    "choice": tensor(6, 2, dtype="torch.int64"),
    "states": tensor(6, 8),
    "result": tensor(6, 8),
    "weights": tensor(6, 2),
    "self.experts": Fact("module", "torch.nn.ModuleList"),
}
ADD = "result.index_add_(0, row, made)"
WEIGHT = "weights[row, place, None]"


def safety(*lines: str) -> Safety:
    source = SOURCE.format("\n            ".join(lines))
    at = "torch.where(choice == number)"
    site = example_site(Example(source, source, at=at, facts=FACTS), "GB0036")
    return next(made.safety for made in ExpertsToDense().propose(site) if isinstance(made, Rewrite))


@pytest.mark.parametrize(
    "lines",
    [
        (f"made = expert(states[row]) * {WEIGHT}", ADD),
        (f"made = {WEIGHT} * expert(states[row])", ADD),
        ("made = expert(states[row])", f"made = made * {WEIGHT}", ADD),
        (f"result.index_add_(0, row, (expert(states[row]) * {WEIGHT}).to(states.dtype))",),
    ],
)
def test_weights_that_come_last_add_up(lines: tuple[str, ...]) -> None:
    assert safety(*lines) is Safety.SAFE


@pytest.mark.parametrize(
    "lines",
    [
        (f"made = expert(states[row] * {WEIGHT})", ADD),
        (f"given = states[row] * {WEIGHT}", "made = expert(given)", ADD),
        (f"made = expert(states[row]) * {WEIGHT}.exp()", ADD),
        (f"made = expert(states[row]) + {WEIGHT}", ADD),
        (f"made = expert(states[row]) * {WEIGHT}", "made = made.tanh()", ADD),
        (f"result[row] += expert(states[row]) * {WEIGHT}",),
    ],
)
def test_others_do_not(lines: tuple[str, ...]) -> None:
    assert safety(*lines) is Safety.UNSAFE


OWN = """
import torch


def centred(rows):
    return rows - rows.mean(0)


class Experts(torch.nn.Module):
    def __init__(self):
        self.experts = torch.nn.ModuleList([MADE for _ in range(4)])

    def work(self, number, rows):
        return CALLED

    def forward(self, states, choice, weights):
        result = torch.zeros_like(states)
        for number in range(4):
            row, place = torch.where(choice == number)
            made = self.work(number, states[row])
            result.index_add_(0, row, made * weights[row, place, None])
        return result
"""


@pytest.mark.parametrize(
    ("called", "made", "expected"),
    [
        ("rows * 2", "torch.nn.Linear(3, 3)", Safety.SAFE),
        ("rows - rows.mean(0)", "torch.nn.Linear(3, 3)", Safety.UNSAFE),
        ("centred(rows)", "torch.nn.Linear(3, 3)", Safety.UNSAFE),
        ("self.experts[number](rows)", "torch.nn.Linear(3, 3)", Safety.SAFE),
        ("self.experts[number](rows)", "build()", Safety.UNSAFE),
    ],
)
def test_methods_that_work_on_rows(called: str, made: str, expected: Safety) -> None:
    source = OWN.replace("CALLED", called).replace("MADE", made)
    at = "torch.where(choice == number)"
    site = example_site(Example(source, source, at=at, facts=FACTS), "GB0036")
    rewrites = [it for it in ExpertsToDense().propose(site) if isinstance(it, Rewrite)]
    assert [it.safety for it in rewrites] == [expected]
