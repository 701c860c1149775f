"""Which calls of a region are alike."""

from __future__ import annotations

import pytest
import torch

from gbfix.worker.kinds import kind_of


class Config:
    def __init__(self, flag: bool, step: int) -> None:
        self.flag, self.step = flag, step


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


X = torch.ones(3, 2)
NET = Net()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (X, torch.zeros(5, 4)),
        (3, 4),
        (0.5, 2.0),
        ([X, X], [X, torch.zeros(4, 4)]),
        (Config(True, 1), Config(True, 9)),
        ({"x": X, "n": 1}, {"x": X, "n": 2}),
        (list(range(1, 20)), list(range(1, 30))),
    ],
)
def test_sizes_and_counters_make_no_other_kind(one: object, other: object) -> None:
    assert kind_of(len, (one,), {}) == kind_of(len, (other,), {})
    assert kind_of(len, (), {"a": one}) == kind_of(len, (), {"a": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (X, X.double()),
        (X, X[0]),
        (X, X[:1]),
        (X, X[:0]),
        (X, None),
        (True, False),
        (1, 1.0),
        (0, 1),
        (1.0, -1.0),
        ("mean", "sum"),
        ([X], [X, X]),
        ({"x": X}, {"y": X}),
        (Config(True, 1), Config(False, 1)),
        ((1, (2, "a")), (1, (2, "b"))),
    ],
)
def test_flags_texts_and_ranks_make_another_kind(one: object, other: object) -> None:
    assert kind_of(len, (one,), {}) != kind_of(len, (other,), {})
    assert kind_of(len, (), {"a": one}) != kind_of(len, (), {"a": other})


def test_the_mode_of_a_module_and_gradients_count() -> None:
    training = kind_of(NET, (X,), {}), kind_of(NET.forward, (X,), {}), kind_of(len, (NET,), {})
    NET.eval()
    try:
        assert kind_of(NET, (X,), {}) != training[0]
        assert kind_of(NET.forward, (X,), {}) != training[1]
        assert kind_of(len, (NET,), {}) != training[2]
    finally:
        NET.train()
    with torch.no_grad():
        assert kind_of(NET, (X,), {}) != training[0]
