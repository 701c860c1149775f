"""Arrays that get a list beside them, and generators that become lists at the call."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.api.list_iterator import PassTheList
from gbfix_codemods.recipes.array_numbers import ArrayNumbers

from gbfix.codemod import Codemod, Example, Rewrite, example_site, tensor
from gbfix.schema import Fact, Safety

_STEPS = Fact("ndarray", "numpy.ndarray", shape=(4,), dtype="int64")


def _first(codemod: Codemod, source: str, at: str, facts: dict[str, Fact]) -> Rewrite | None:
    case = Example(source, "", at=at, facts=facts, title="")
    found = codemod.propose(example_site(case, codemod.codes[0]))
    return next((it for it in found if isinstance(it, Rewrite)), None)


def _sampler(keeps: str, body: str = "x = x + self.shifts[t]", more: str = "") -> str:
    return f"""import numpy as np
import torch


class Sampler(torch.nn.Module):
    def __init__(self, given, shifts):
        super().__init__()
{textwrap.indent(keeps, " " * 8)}
        self.shifts = shifts

    def forward(self, x):
        for t in self.steps:
            {body}
        return x
{more}"""


def _array(source: str) -> Rewrite | None:
    return _first(ArrayNumbers(), source, "self.shifts[t]", {"self.steps": _STEPS})


@pytest.mark.parametrize(
    ("keeps", "made"),
    [
        ("self.steps = np.arange(4)", "self.steps.tolist()"),
        ("self.steps = np.arange(4).astype(int)[::-1]", "np.asarray(self.steps).tolist()"),
        ("steps = np.arange(4)\nself.steps = steps", "np.asarray(self.steps).tolist()"),
    ],
)
def test_the_class_makes_the_list_beside_its_array(keeps: str, made: str) -> None:
    rewrite = _array(_sampler(keeps))
    assert rewrite is not None and rewrite.safety is Safety.SAFE
    assert f"self.steps_list = {made}" in next(iter(rewrite.edits.values()))


@pytest.mark.parametrize(
    ("keeps", "body", "more"),
    [
        ("self.steps = given", "x = x + self.shifts[t]", ""),  # the caller may change it
        ("self.steps = given.steps", "x = x + self.shifts[t]", ""),
        ("self.steps = np.arange(4)", "x = x + self.shifts[t] * (9 % t)", ""),
        ("self.steps = np.arange(4)", "x = x + self.shifts[t]", "\n\nchange(net.steps)\n"),
        ("self.steps = np.arange(4)", "x = x + self.shifts[t]", "\n\nlast = net.steps[1:]\n"),
        ("self.steps = np.arange(4)", "x = x + self.shifts[t]", "\n\nflat = net.steps.ravel()\n"),
        ("self.steps = np.arange(4)", "x = x + self.shifts[t]", "\n\nnp.abs(x, out=net.steps)\n"),
        (
            "self.steps = np.arange(4)",
            "x = x + self.shifts[t]",
            "\n\ntensor = torch.from_numpy(net.steps)\n",
        ),
    ],
)
def test_a_list_that_may_differ_is_unsafe(keeps: str, body: str, more: str) -> None:
    rewrite = _array(_sampler(keeps, body, more))
    assert rewrite is not None and rewrite.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    ("keeps", "more"),
    [
        ("self.steps = np.arange(4)\nself.steps += 1", ""),
        ("steps = np.arange(4)\nself.steps = steps\nsteps[0] = 3", ""),
        ("self.steps = np.arange(4)\nself.steps.sort()", ""),
        ("self.steps, given = np.arange(4), 1", ""),
        ("self.steps = np.arange(4)", "\n\nsetattr(net, 'steps', None)\n"),
        ("self.steps = np.arange(4)", "\n\nnet.steps[1] += 1\n"),
        ("self.steps = np.arange(4)", "\n    def reset(self):\n        del self.steps\n"),
    ],
)
def test_an_array_that_is_changed_gets_no_list(keeps: str, more: str) -> None:
    assert _array(_sampler(keeps, more=more)) is None


def test_who_asks_the_array_for_a_copy_changes_nothing() -> None:
    more = "\n\nprint(len(net.steps), net.steps.shape)\nmine = net.steps.copy()\n"
    rewrite = _array(_sampler("self.steps = np.arange(4)", more=more))
    assert rewrite is not None and rewrite.safety is Safety.SAFE


def _pool(gives: str, walks: str = "found.append(part)", call: str = "pool(parts(x))") -> str:
    return f"""import torch


def parts(x):
    for at in range(2):
{textwrap.indent(gives, " " * 8)}


class Pool(torch.nn.Module):
    def forward(self, pieces):
        found = []
        for part in pieces:
            {walks}
        return found


def main(x):
    pool = Pool()
    pool = torch.compile(pool.eval())
    return {call}
"""


def _listed(source: str) -> Rewrite | None:
    facts = {
        "pieces": Fact("iterator", "generator"),
        "found": Fact("list", "list"),
        "part": tensor(3),
    }
    return _first(PassTheList(), source, "for part in pieces", facts)


def test_a_module_gets_a_list_of_what_a_generator_computes() -> None:
    rewrite = _listed(_pool("yield x[at].abs() + torch.sin(x)[at]"))
    assert rewrite is not None and rewrite.safety is Safety.SAFE
    assert "pool(list(parts(x)))" in next(iter(rewrite.edits.values()))


@pytest.mark.parametrize(
    ("gives", "walks"),
    [
        ("print(at)\nyield x[at]", "found.append(part)"),
        ("x = x.add_(1)\nyield x[at]", "found.append(part)"),
        ("x[at] = 0\nyield x", "found.append(part)"),
        ("yield torch.rand(2)", "found.append(part)"),
        ("yield x[at] * SCALE", "found.append(part)"),
        ("yield from x", "found.append(part)"),
        ("if at:\n    raise ValueError\nyield x", "found.append(part)"),
        ("yield x[at]", "found.append(part.add_(1))"),  # the next item may share its memory
        ("yield x[at]", "self.last = part"),
        ("yield x[at] * 2", "found.append(shrunk(part))"),  # who knows what it changes
    ],
)
def test_a_generator_that_can_tell_when_it_runs_is_unsafe(gives: str, walks: str) -> None:
    rewrite = _listed(_pool(gives, walks))
    assert rewrite is None or rewrite.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    "call", ["other(parts(x))", "pool(made)", "pool(*parts(x))", "pool.scale(parts(x))"]
)
def test_other_calls_stay(call: str) -> None:
    assert _listed(_pool("yield x[at]", call=call)) is None
