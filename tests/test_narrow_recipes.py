"""Rewrites that are unsafe where the text does not show that both forms do the same."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.api.try_shapes import TryShapes
from gbfix_codemods.choice.loops import LoopToBound
from gbfix_codemods.recipes.call_form import CallForm
from gbfix_codemods.recipes.detached_input import DetachedInput
from gbfix_codemods.recipes.freeze_in_init import FreezeInInit
from gbfix_codemods.recipes.legacy_tensor import LegacyTensor
from gbfix_codemods.recipes.script_class import ScriptClass
from gbfix_codemods.side_effects.reseeded_draw import ReseededDraw

from gbfix.analysis.tensor_names import OF_TENSORS
from gbfix.codemod import Codemod, NearMiss, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact, Safety


def proposed(
    codemod: Codemod, source: str, at: str, facts: dict[str, Fact], code: str = ""
) -> Rewrite:
    case = NearMiss(textwrap.dedent(source), at=at, why="", facts=facts)
    site = example_site(case, code or codemod.codes[0])
    return next(made for made in codemod.propose(site) if isinstance(made, Rewrite))


@pytest.mark.parametrize(
    ("key", "below", "safety"),
    [
        ("len", "", Safety.SAFE),
        ("lambda part: (part.ndim, -part.shape[0])", "", Safety.SAFE),
        ("lambda part: part.cost", "", Safety.UNSAFE),
        ("lambda part: part.numel() / 2", "", Safety.UNSAFE),
        ("len", "try:\n    best([])\nexcept ValueError:\n    pass\n", Safety.UNSAFE),
    ],
)
def test_the_best_by_a_key_is_safe_for_sizes(key: str, below: str, safety: Safety) -> None:
    call = f"max(parts, key={key})"
    source = f"def best(parts):\n    return {call}\n\n\n{below}"
    rewrite = proposed(CallForm(), source, call, {"parts": scalar(1)}, "GB0193")
    assert rewrite.safety is safety


@pytest.mark.parametrize(
    ("line", "safety"), [("size = x.shape", Safety.SAFE), ("pass", Safety.UNSAFE)]
)
def test_a_recorded_size_is_no_promise(line: str, safety: Safety) -> None:
    given = "x, size" if line == "pass" else "x"
    source = f"""
    import torch

    def f({given}):
        {line}
        y = torch.FloatTensor(size)
        return y * 2
    """
    size = Fact("tuple", "torch.Size", items=(scalar(2), scalar(3)))
    rewrite = proposed(LegacyTensor(), source, "y * 2", {"x": tensor(2, 3), "size": size})
    assert rewrite.safety is safety


@pytest.mark.parametrize(
    ("line", "below", "safety"),
    [
        ("pass", "", Safety.SAFE),
        ("pred = pred + target[0]", "", Safety.SAFE),
        ("pred = torch.where(target > 0, pred, target.abs())", "", Safety.SAFE),
        ("kept = target", "", Safety.UNSAFE),
        ("self.same = target is self.last", "", Safety.UNSAFE),
        ("pred = pred * target.weight", "", Safety.UNSAFE),
        ("target.t_()", "", Safety.UNSAFE),
        ("target[0] = 1", "", Safety.UNSAFE),
        ("target = target.float()", "", Safety.UNSAFE),
        ("self.cut = lambda: target", "", Safety.UNSAFE),
        ("self.found.append(target)", "", Safety.UNSAFE),
        ("pass", "print(goal.grad)", Safety.UNSAFE),
        ("pass", "goal = torch.ones(3, requires_grad=True)", Safety.SAFE),
    ],
)
def test_a_detached_argument_is_only_computed_with(line: str, below: str, safety: Safety) -> None:
    source = f"""
    import torch

    def loss(self, pred, target):
        target.requires_grad = False
        {line}
        return (pred - target).sum()

    {below}
    """
    facts = {"pred": tensor(3), "target": tensor(3)}
    rewrite = proposed(DetachedInput(), source, "target.requires_grad = False", facts, "GB0206")
    assert rewrite.safety is safety


def test_the_names_of_tensors_are_all_written_down() -> None:
    torch = pytest.importorskip("torch")
    found = {name for name in dir(torch.nn.Parameter) if not name.startswith("__")}
    assert found <= OF_TENSORS


_SEEDED = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.seed = 3

    def forward(self, x):
        torch.manual_seed(self.seed)
        noise = torch.randn(4, 2)
        return x @ noise


def shaken(x):
    return x + {0}


def evaluate(net, x) -> torch.Tensor:
    return net(shaken(x))


def batch():
    return torch.randn(3, 4)


step = torch.compile(evaluate)
"""


@pytest.mark.parametrize(
    ("more", "safety"),
    [
        ("1", Safety.SAFE),
        ("torch.randn_like(x)", Safety.UNSAFE),
        ("torch.empty(4).normal_()", Safety.UNSAFE),
        ("torch.distributions.Normal(x, 1).sample()", Safety.UNSAFE),
    ],
)
def test_a_seed_is_safe_where_nothing_else_is_drawn(more: str, safety: Safety) -> None:
    facts = {"self.seed": scalar(3), "self": Fact("module", "Net"), "x": tensor(3, 4)}
    source = _SEEDED.format(more)
    rewrite = proposed(ReseededDraw(), source, "torch.manual_seed(self.seed)", facts)
    assert rewrite.safety is safety


_FROZEN = """
from torch import nn


class Net({base}):
    def __init__(self, trunk):
        super().__init__()
        self.body = {made}

    def {name}(self, x):
        self.body.requires_grad_(False)
        return self.body(x)
"""


@pytest.mark.parametrize(
    ("base", "made", "name", "safety"),
    [
        ("nn.Module", "nn.Linear(4, 4)", "forward", Safety.SAFE),
        ("nn.Module", "nn.Linear(4, 4)", "probe", Safety.UNSAFE),
        ("nn.Sequential", "nn.Linear(4, 4)", "forward", Safety.UNSAFE),
        ("nn.Module", "trunk", "forward", Safety.UNSAFE),
        ("nn.Module", "nn.Sequential(trunk, nn.ReLU())", "forward", Safety.UNSAFE),
        ("nn.Module", "nn.Sequential(nn.Linear(trunk, 4), nn.ReLU())", "forward", Safety.SAFE),
    ],
)
def test_what_may_be_trained_first_is_not_frozen_early(
    base: str, made: str, name: str, safety: Safety
) -> None:
    source = _FROZEN.format(base=base, made=made, name=name)
    line = "self.body.requires_grad_(False)"
    assert proposed(FreezeInInit(), source, line, {}).safety is safety


_SCRIPTED = """
import torch
from torch import nn


class Weight(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.weight = 0.5

    @torch.jit.script_method
    def forward(self, x):
        {inside}return x * self.weight

    {own}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = Weight()

    def forward(self, x):
        return self.by(x)


def tune(net, epoch):
    {outside}
"""


@pytest.mark.parametrize(
    ("inside", "own", "outside", "safety"),
    [
        ("", "", "return epoch", Safety.SAFE),
        ("", "", "net.by.weight = epoch", Safety.UNSAFE),
        ("", "", "net.by.weight += 1", Safety.UNSAFE),
        ("", "def tune(self, n): self.weight = n", "net.by.tune(epoch)", Safety.UNSAFE),
        ("print(x)\n        ", "", "return epoch", Safety.UNSAFE),
        ("", "", "torch.ao.quantization.quantize_dynamic(net)", Safety.UNSAFE),
        ("", "", "return torch.jit.Error", Safety.UNSAFE),
    ],
)
def test_what_torchscript_converts_or_prints(
    inside: str, own: str, outside: str, safety: Safety
) -> None:
    source = _SCRIPTED.format(inside=inside, own=own, outside=outside)
    facts = {"self.by": Fact("module", "example.Weight"), "x": tensor(3)}
    assert proposed(ScriptClass(), source, "self.by(x)", facts).safety is safety


_UNTIL = """
import torch
from torch import nn


class Balance(nn.Module):
    def __init__(self, given, softness=0.2):
        super().__init__()
        self.softness = {made}

    def shifted(self, x, rows):
        return (x - rows) / self.softness

    def forward(self, x, rows):
        moved, n = x.sum(), 0
        while moved > 0.1 and n < 8:
            before = rows
            rows = rows + self.shifted(x, rows)
            moved = (rows - before).abs().mean()
            n += 1
        return rows
"""


@pytest.mark.parametrize(
    ("made", "safety"),
    [
        ("softness", Safety.SAFE),
        ("0.5", Safety.SAFE),
        ("given", Safety.UNSAFE),
        ("nn.Parameter(torch.ones(()))", Safety.UNSAFE),
    ],
)
def test_a_method_gets_ones_where_it_reads_numbers_alone(made: str, safety: Safety) -> None:
    facts = {
        "x": tensor(3, requires_grad=True),
        "rows": tensor(3, requires_grad=True),
        "before": tensor(3, requires_grad=True),
        "moved": tensor(requires_grad=True),
        "moved > 0.1": tensor(dtype="torch.bool"),
        "self.shifted(x, rows)": tensor(3, requires_grad=True),
        "rows + self.shifted(x, rows)": tensor(3, requires_grad=True),
        "rows - before": tensor(3, requires_grad=True),
        "(rows - before).abs()": tensor(3, requires_grad=True),
        "(rows - before).abs().mean()": tensor(requires_grad=True),
        "x.sum()": tensor(requires_grad=True),
        "n": scalar(0, constant=False),
        "n < 8": scalar(True, constant=False),
        "self": Fact("module", "example.Balance"),
    }
    source = _UNTIL.format(made=made)
    assert proposed(LoopToBound(), source, "moved > 0.1", facts).safety is safety


@pytest.mark.parametrize(
    ("head", "instead", "safety"),
    [
        ("except:", "grown(y, x.shape)", Safety.SAFE),
        ("except:", "grown(y, x.shape) + 1", Safety.SAFE),
        ("except:", "y.t()", Safety.UNSAFE),
        ("except:", "y[:, None]", Safety.UNSAFE),
        ("except RuntimeError:", "grown(y, x.shape)", Safety.UNSAFE),
    ],
)
def test_shapes_are_safe_where_no_error_counts(head: str, instead: str, safety: Safety) -> None:
    source = f"""
    import torch

    def f(x, y):
        try:
            z = x + y
        {head}
            z = x + {instead}
        return z
    """
    facts = {"x": tensor(2, 3), "y": tensor(3, 2)}
    rewrite = proposed(TryShapes(), source, "x + y", facts, "torch-runtime-error")
    assert rewrite.safety is safety
