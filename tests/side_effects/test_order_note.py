"""A patch that adds a second operator with an effect says what holds the order of the two."""

from __future__ import annotations

import pytest
from gbfix_codemods.side_effects.effect_operator import ORDER_NOTE
from gbfix_codemods.side_effects.effect_to_op import EffectToOp

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor

_ALONE = """
import torch

SEEN = []


def f(x):
    SEEN.append(x.sum().item())
    return x
"""
_SECOND = _ALONE.replace(
    "\n\ndef f",
    "\n\nshow.register_effect(torch.library.EffectType.ORDERED)\n\n\ndef f",
)
_ROUNDS = _ALONE.replace(
    "    SEEN.append(x.sum().item())\n",
    "    for _ in range(3):\n        SEEN.append(x.sum().item())\n        x = x + 1\n",
)


@pytest.mark.parametrize(
    ("source", "said"), [(_ALONE, False), (_SECOND, True), (_ROUNDS, True)],
    ids=["alone", "a second one", "in a loop"],
)  # fmt: skip
def test_the_order_of_several_effects_is_spoken_of(source: str, said: bool) -> None:
    facts = {"x": tensor(3), "x.sum().item()": scalar(1.0)}
    site = example_site(Example(source, "", at="x.sum().item()", facts=facts), "GB0124")
    rewrites = [made for made in EffectToOp().propose(site) if isinstance(made, Rewrite)]
    assert rewrites
    assert all((ORDER_NOTE in rewrite.notes) == said for rewrite in rewrites)
