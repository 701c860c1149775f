"""How far two gradients may be apart."""

from __future__ import annotations

import pytest
import torch

from gbfix.worker.compare import Comparison
from gbfix.worker.shots import Shot
from gbfix.worker.values import Imager


def shot(label: str, gradient: list[float]) -> Shot:
    found = Shot(label, "values")
    found.grads = {"w": Imager().image(torch.tensor(gradient))}
    return found


@pytest.mark.parametrize(
    ("mode", "label", "old", "new", "alike"),
    [
        # Sums of large terms in another order.
        ("aot_eager", "base", [3.0, 0.0], [3.0, 4e-5], True),
        ("eager", "base", [3.0, 0.0], [3.0, 4e-5], False),
        ("aot_eager", "base", [3.0, 0.0], [3.0, 4e-4], False),
        # A sigmoid that scaled inputs saturate.
        ("aot_eager", "scaled", [0.0, 0.0], [0.0, 1.6e-5], True),
        ("inductor", "scaled", [0.0, 0.0], [0.0, 1.6e-5], True),
        ("aot_eager", "base", [0.0, 0.0], [0.0, 1.6e-5], False),
        ("eager", "scaled", [0.0, 0.0], [0.0, 1.6e-5], False),
        # A small gradient that is lost, which only inductor's scale sees.
        ("inductor", "base", [9e-6, 9e-6], [0.0, 0.0], False),
        ("eager", "base", [9e-6, 9e-6], [0.0, 0.0], False),
    ],
)
def test_gradients(mode: str, label: str, old: list[float], new: list[float], alike: bool) -> None:
    comparison = Comparison(mode)
    comparison.add(shot(label, old), shot(label, new))
    assert bool(comparison.differences) is not alike, comparison.differences
