"""Sizes that the data decides, and whether one mask decides on both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gbfix.worker import sizes
from gbfix.worker.same_masks import origins


def _again(x: Any, y: Any) -> Any:
    return x[~((x > 0) | torch.isnan(y))] * y[~((x > 0) | torch.isnan(y))]


def _named(x: Any, y: Any) -> Any:
    mask = x > 0
    return x[mask] + y[mask]


def _places(x: Any, y: Any) -> Any:
    places = torch.where(x > 0)[0]
    return x[places] + y[x > 0]


def _changed_elsewhere(x: Any, y: Any) -> Any:
    mask = x > 0
    first = x[mask]
    y.add_(1)
    return first + y[mask]


def _changed(x: Any, y: Any) -> Any:
    mask = x > 0
    first = x[mask]
    mask[0] = True
    return first + y[mask]


def _by_a_view(x: Any, y: Any) -> Any:
    mask = x > 0
    first = x[mask]
    mask[:2].logical_not_()
    return first + y[mask]


def _values_change(x: Any, y: Any) -> Any:
    first = y[x > 0]
    x = x.neg_()
    return first + y[x > 0]


def _drawn(x: Any, y: Any) -> Any:
    return x[torch.rand(6) > 0.5] + y[torch.rand(6) > 0.5]


def _others(x: Any, y: Any) -> Any:
    return x[x > 0] + y[y > 0]


@pytest.mark.parametrize(
    ("function", "alike"),
    [
        (_named, True),
        (_again, True),
        (_places, True),
        (_changed_elsewhere, True),
        (_changed, False),
        (_by_a_view, False),
        (_values_change, False),
        (_drawn, False),
        (_others, False),
    ],
)
def test_one_mask_or_two(function: Callable[..., Any], alike: bool) -> None:
    found: list[bool] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        counted = origins(graph)
        for _, symbols, _ in sizes._taken_as_equal(graph, set()):
            found.append(len({counted[symbol] for symbol in symbols}) == 1)
        return graph.forward

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        x = torch.tensor([1.0, -1.0, 2.0, 3.0, -2.0, 0.5])
        try:
            compiled(x, torch.arange(6.0))
        except RuntimeError:
            assert not alike
    # (Of one tensor, torch itself knows it: nothing is left to say then.)
    assert all(found) if alike else found and not all(found)
