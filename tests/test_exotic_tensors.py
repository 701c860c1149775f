"""Sparse, nested, quantized and lazy tensors are recorded, varied and compared, never an error."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

from gbfix.evidence import Finding, Part
from gbfix.schema import Report
from gbfix.worker.compare import Findings
from gbfix.worker.perturb import Inputs, variations
from gbfix.worker.values import Imager, is_plain

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    TENSORS: dict[str, Callable[[float], torch.Tensor]] = {
        "coo": lambda value: (torch.eye(3) * value).to_sparse(),
        "csr": lambda value: (torch.eye(3) * value).to_sparse_csr(),
        "nested": lambda value: torch.nested.nested_tensor(
            [torch.full((2, 3), value), torch.ones(4, 3)]
        ),
        "jagged": lambda value: torch.nested.nested_tensor(
            [torch.full((2, 3), value), torch.ones(4, 3)], layout=torch.jagged
        ),
        "quantized": lambda value: torch.quantize_per_tensor(
            torch.full((2, 3), value), 0.1, 0, torch.qint8
        ),
        "lazy": lambda value: torch.nn.parameter.UninitializedParameter(
            dtype=torch.float32 if value == 1.0 else torch.float64
        ),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TENSORS)
def test_every_variation_can_be_made(name: str) -> None:
    given = TENSORS[name](1.0)
    assert not is_plain(given)
    for variation in variations("eager"):
        varied = Inputs(lambda x, y: x, (given, torch.ones(3, 3)), {}).vary(variation)
        if varied is not None and isinstance(varied[0][0], torch.Tensor):
            assert varied[0][0].layout is given.layout
            assert varied[0][0].is_quantized == given.is_quantized


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TENSORS)
def test_images_tell_values_apart(name: str) -> None:
    def differences(first: torch.Tensor, second: torch.Tensor) -> list[Finding]:
        found = Findings()
        images = [Imager().image(value, "out") for value in (first, second)]
        found.diff(*images, Part.OUTPUT, "out", strict=True, tight=None)
        return found.findings

    make = TENSORS[name]
    assert differences(make(1.0), make(1.0)) == []
    assert differences(make(1.0), make(2.0))


@pytest.mark.filterwarnings("ignore")
def test_a_sparse_tensor_is_not_a_dense_one() -> None:
    found = Findings()
    images = [Imager().image(value, "out") for value in (torch.eye(3), torch.eye(3).to_sparse())]
    found.diff(*images, Part.OUTPUT, "out", strict=True, tight=None)
    assert found.findings


@pytest.mark.filterwarnings("ignore")
def test_the_values_of_a_sparse_tensor_vary_and_its_pattern_stays() -> None:
    given = torch.eye(3).to_sparse()
    redrawn = next(v for v in variations("eager") if v.label == "negated")
    varied = Inputs(lambda x: x, (given,), {}).vary(redrawn)
    assert varied is not None
    assert torch.equal(varied[0][0].to_dense(), -torch.eye(3))
    assert torch.equal(given.to_dense(), torch.eye(3))


PROGRAM = """
import torch


class Lazy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.LazyLinear(2)

    def forward(self, x):
        torch._dynamo.graph_break()
        return self.fc(x)


@torch.compile
def sparse(adjacency, x):
    return torch.sparse.mm(adjacency, x)


@torch.compile
def nested(x):
    return x * 2


@torch.compile
def quantized(x):
    return x


sparse(torch.eye(3).to_sparse(), torch.ones(3, 2))
nested(torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)]))
quantized(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))
torch.compile(Lazy())(torch.ones(2, 3))
with torch.inference_mode():
    held = torch.ones(2)


@torch.compile
def holds(x):
    return held + x


with torch.inference_mode():
    holds(torch.ones(2))
"""


def test_programs_with_such_tensors_end_without_internal_errors(
    gbfix_run: Callable[..., Report],
) -> None:
    report = gbfix_run(PROGRAM)
    assert report.errors == []
    assert len(report.regions) == 5
    codes = {item.graph_break.code for item in report.breaks}
    assert {"GB0015", "GB0016", "GB0025"} <= codes


def test_tensors_that_are_made_of_others_are_compared_by_these() -> None:
    """As a shard of a parameter is (DTensor): operators on it may have no meaning, or talk."""
    from torch.testing._internal.two_tensor import TwoTensor

    def differences(first: torch.Tensor, second: torch.Tensor) -> list[Finding]:
        found = Findings()
        images = [Imager().image(value, "out") for value in (first, second)]
        found.diff(*images, Part.OUTPUT, "out", strict=True, tight=None)
        return found.findings

    def make(value: float, *, inner: float = 1.0) -> torch.Tensor:
        pair: torch.Tensor = TwoTensor(torch.full((2, 3), value), torch.full((2, 3), inner))
        return pair

    assert differences(make(1.0), make(1.0)) == []
    assert differences(make(1.0), make(2.0))
    assert differences(make(1.0), make(1.0, inner=2.0))
    assert differences(make(1.0), torch.ones(2, 3))
    assert differences(make(1.0), make(1.0).requires_grad_())
