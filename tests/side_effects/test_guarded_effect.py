"""Effects under a test of a tensor's data happen where they did, and only there."""

from __future__ import annotations

import pytest
import torch
from effect_trials import check, proposals
from gbfix_codemods.side_effects.guarded_effect import GuardedEffectToOp

X = torch.arange(6.0).reshape(2, 3)
NAN = torch.where(X > 3, torch.nan, X)
CALLS = [(X,), (NAN,), (X - 100,), (X[:, :2] + 1,)]
TRAIN = [(x.clone().requires_grad_(),) for x in (X, NAN, X - 100)]

PROGRAM = """
import logging
import warnings
import torch

logger = logging.getLogger("trial")


def f(x, n=3, name="run"):
    y = x * 2
    loss = y.mean()
    {}
        {}
    y.mul_(2)
    return y
"""


@pytest.mark.parametrize(
    ("test", "body"),
    [
        ("torch.isnan(y).any()", 'logger.warning("nan in %s at %d", name, n)'),
        ("not torch.isfinite(loss)", 'print(f"{name}: {loss:.3f} {y.shape}")'),
        ("loss < -5 and n > 2", 'warnings.warn("small"); print("n", n)'),
        ("loss.item() > 1.0", 'print("large", loss.item())\n    else:\n        print("small")'),
        (
            "y.max() > 1e3",
            'print(1)\n    elif (y < 0).any():\n        logger.info("%s", y.detach().sum())',
        ),
    ],
)
@pytest.mark.parametrize("calls", [CALLS, TRAIN], ids=["plain", "training"])
def test_guarded(test: str, body: str, calls: list[tuple[torch.Tensor]]) -> None:
    at = test.partition(" and ")[0].removeprefix("not ")
    check(GuardedEffectToOp(), PROGRAM.format(f"if {test}:", body), at, calls)


def test_a_text_that_shows_a_grad_fn_is_refused() -> None:
    source = PROGRAM.format("if torch.isnan(y).any():", 'print("bad", y)')
    rewrites, advice = proposals(GuardedEffectToOp(), source, "torch.isnan(y).any()", TRAIN)
    assert not rewrites and advice
