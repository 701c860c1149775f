"""Inputs that are another number in one place alone: masks of them hit one, or all but one."""

from __future__ import annotations

import pytest
import torch

from gbfix.worker.perturb import LONE, Inputs, Variation


@pytest.mark.parametrize("variation, hits", [(LONE[0], 1), (LONE[1], 5)])
@pytest.mark.parametrize(
    "given",
    [
        torch.randn(2, 3),
        torch.rand(2, 3) > 0.5,
        torch.tensor([[4, 7, 5], [4, 4, 6]]),
        torch.randn(3, 2).t(),
    ],
)
def test_a_mask_hits_one_place_or_all_but_one(
    given: torch.Tensor, variation: Variation, hits: int
) -> None:
    varied = Inputs(lambda x: x, (given.clone(),), {}).vary(variation)
    assert varied is not None
    (x,) = varied[0]
    middle = given.float().mean() if given.dtype is torch.int64 else 0.5
    assert int((x.float() >= middle).sum()) == hits
    assert x.dtype is given.dtype and x.shape == given.shape


def test_nothing_has_no_places() -> None:
    varied = Inputs(lambda x: x, (torch.zeros(0, 3),), {}).vary(LONE[0])
    assert varied is not None and varied[0][0].shape == (0, 3)
