"""Modules whose rows are given together with others: what their text has to show."""

from __future__ import annotations

import pytest
from gbfix_codemods.choice.computing import class_computes, made_by
from gbfix_codemods.data_dependent.selections import is_own
from libcst import Name

from gbfix.codemod import Example, example_site

MODULE = """
import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)
        self.pick = nn.Softmax(dim=0)
        self.weight = nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        h = torch.relu(self.up(x))
        {}
        return self.down(h)
{}
"""


@pytest.mark.parametrize(
    "line, alone",
    [
        ("h = h * 2", True),
        ("a, b = h.chunk(2, dim=-1)", True),
        ("h = h / h.shape[-1]", True),
        ("y = x @ self.weight.t()", True),
        ("h = torch.softmax(h, dim=-1)", True),
        ("h = h if x.shape[0] < 64 else h * 0.5", False),
        ("h = h if len(x) < 64 else h * 0.5", False),
        ("assert len(x) < 64", False),
        ("assert x.shape[0] < 64", False),
        ("h = h if x.size(0) < 64 else h * 0.5", False),
        ("h = h.clone(); h[64:] = 0", False),
        ("m = h > 0; m[..., 0] = True; h = h * m", True),
        ("m = h > 0; m[0] = True; h = h * m", False),
        ("h = h + h[:1]", False),
        ("h = torch.where(torch.arange(x.size(-1)) < 64, h, 0)", False),
        ("y = self.up(x) @ self.up(x).transpose(-2, -1)", False),
        ("a, b = h.chunk(2, dim=0)", False),
        ("h = h.cummax(0).values", False),
        ("h = self.pick(h)", False),
        ("h = h.T", False),
        ("h = h.view(-1).cumsum(-1).view(-1, 8)", False),
        ("h = self.up(x.unsqueeze(0)).squeeze(0)", False),
        ("h = h * h.sum(-1).unsqueeze(-1)", True),
        ("y = torch.cov(h)", False),
        ("y = torch.linalg.norm(torch.matrix_power(h, -1))", False),
        ("h = h.index_put((torch.tensor([0]),), h[-1])", False),
        ("h = torch.heaviside(h, h)", True),
    ],
)
def test_rows_that_look_at_each_other(line: str, alone: bool) -> None:
    text = MODULE.format(line, "")
    site = example_site(Example(text, "", at="self.up(x)"), "GB0170")
    found = class_computes(site, "Expert")
    assert (not found.why_not and found.rows_alone) is alone


@pytest.mark.parametrize(
    "line, computes",
    [
        ("assert x.shape[-1] == 4, 'four'", True),
        ("assert x.dim() == 2 and isinstance(x, torch.Tensor)", True),
        ("if x.ndim != 2: raise ValueError(x.shape)", True),
        ("assert (x > 0).all()", False),
        ("assert self.up is x", False),
        ("if x.sum() > 0: raise ValueError('full')", False),
        ("raise ValueError('always')", False),
    ],
)
def test_errors_about_sizes_are_those_that_any_operation_raises(line: str, computes: bool) -> None:
    site = example_site(Example(MODULE.format(line, ""), "", at="self.up(x)"), "GB0170")
    assert (not class_computes(site, "Expert").why_not) is computes


def test_another_forward_may_take_the_place_of_its_own() -> None:
    text = MODULE.format("h = h * 2", "\n\nExpert.forward = torch.relu\n")
    site = example_site(Example(text, "", at="self.up(x)"), "GB0170")
    assert "another `forward`" in class_computes(site, "Expert").why_not


def test_uses_of_an_embedding_are_counted() -> None:
    text = MODULE.format("h = h * 2", "").replace(
        "nn.Softmax(dim=0)", "nn.Embedding(9, 4, scale_grad_by_freq=True)"
    )
    site = example_site(Example(text, "", at="self.up(x)"), "GB0170")
    assert not class_computes(site, "Expert").rows_alone


def test_a_root_has_no_finite_derivative_at_zero() -> None:
    for power, tame in (("h ** 2", True), ("h.abs() ** 0.5", False), ("h.abs() ** -1", False)):
        site = example_site(Example(MODULE.format(f"h = {power}", ""), "", at="self.up(x)"), "")
        assert class_computes(site, "Expert").tame is tame


OUT = """
import torch


def f(x, mask):
    {}
    for i in range(3):
        {}
        out[mask] = x[mask]
    {}
"""


@pytest.mark.parametrize(
    "made, inside, after, own",
    [
        ("out = torch.zeros_like(x)", "pass", "return out.sum()", True),
        ("out = torch.zeros_like(x)", "pass", "kept = out.view(-1); return kept", True),
        ("out = kept = torch.zeros_like(x)", "pass", "return kept", False),
        ("out = torch.zeros_like(x); kept = out.view(-1)", "pass", "return kept", False),
        ("out = torch.zeros_like(x)", "rows = out[0]", "return rows", False),
        ("out = torch.zeros_like(x)", "rows.append(out)", "return rows", False),
        ("out: torch.Tensor = x", "pass", "return x", False),
        ("out = x", "pass", "return x", False),
    ],
)
def test_a_tensor_that_has_another_name_keeps_its_own(
    made: str, inside: str, after: str, own: bool
) -> None:
    text = OUT.format(made, inside, after)
    site = example_site(Example(text, "", at="out[mask]"), "GB0036")
    assert site.function is not None
    place = next(site.places_of("out", site.function))
    assert isinstance(place, Name)
    assert is_own(site, place) is own


@pytest.mark.parametrize(
    "made, classes",
    [
        (
            "nn.ModuleDict({'a': nn.Linear(4, 4), 'b': nn.ReLU()})",
            {"torch.nn.Linear", "torch.nn.ReLU"},
        ),
        ("nn.ModuleDict({str(n): nn.Linear(4, 4) for n in range(2)})", {"torch.nn.Linear"}),
        ("nn.ModuleDict([('a', nn.Linear(4, 4)), ('b', Expert())])", {"torch.nn.Linear", "Expert"}),
        ("nn.ModuleDict((str(n), nn.Linear(4, 4)) for n in range(2))", {"torch.nn.Linear"}),
        ("nn.ModuleDict(experts)", None),
        ("nn.ModuleDict({**experts})", None),
        ("nn.ModuleDict([('a', nn.Linear(4, 4)), pair])", None),
        ("nn.ModuleDict({'a': nn.ReLU(inplace=True)})", None),
        ("nn.ModuleDict({'a': nn.Linear(4, 4)}); self.experts.update(more)", None),
    ],
)
def test_the_classes_of_a_dict_of_modules(made: str, classes: set[str] | None) -> None:
    text = f"""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, experts, pair, more):
        super().__init__()
        self.experts = {made}

    def forward(self, x):
        return x
"""
    site = example_site(Example(text, text, at="return x"), text)
    assert made_by(site, "Net", "experts") == classes
