"""How many control-flow operators of one graph may be differentiated."""

from __future__ import annotations

import contextlib

import pytest
import torch

from gbfix.worker.tracing import GraphCounter


def _nested(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 1, lambda: x.sin(), lambda: x.cos())


@pytest.mark.parametrize(
    ("around", "requires_grad", "expected"),
    [
        (contextlib.nullcontext, True, 3),
        (torch.no_grad, True, 0),
        (contextlib.nullcontext, False, 0),
    ],
)
def test_conditionals_of_a_graph(
    around: type[contextlib.nullcontext[None]], requires_grad: bool, expected: int
) -> None:
    def both(x: torch.Tensor) -> torch.Tensor:
        with around():
            y = torch.cond(x.sum() > 0, lambda: _nested(x), lambda: x * 2)
            y = torch.cond(x.sum() > 2, lambda: y + 1, lambda: y - 1)
        return y * x

    counter = GraphCounter()
    torch.compile(both, backend=counter, fullgraph=True)(torch.ones(3, requires_grad=requires_grad))
    assert counter.conditionals == expected
