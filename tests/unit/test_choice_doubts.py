"""What another call of the program may show of a choice, and the recorded run does not."""

from __future__ import annotations

import pytest
from gbfix_codemods.choice.loops import LoopToBound
from gbfix_codemods.choice.lower_choice import LowerChoice
from gbfix_codemods.control_flow.if_to_cond import IfToCond

from gbfix.codemod import Codemod, Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Safety

_AMP = "\n\ndef train(x, amp):\n    with torch.autocast('cpu', enabled=amp):\n        return f(x)\n"
_FACTS = {
    "x": tensor(3, 3),
    "w": tensor(3, 3),
    "x.sum()": tensor(),
    "p.grad": tensor(3, 3),
    "n": scalar(0, constant=False),
    "self.limit": scalar(9),
    "limit": scalar(9),
}


def _made(codemod: Codemod, body: str, at: str, more: str = "") -> Rewrite:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = f"import torch\n\n\ndef f(self, x, w, p, limit=9):\n{lines}{more}"
    case = Example(source, "", at=at, title="", facts=_FACTS)
    found = [it for it in codemod.propose(example_site(case, "GB0170")) if isinstance(it, Rewrite)]
    return found[0]


_IF = "if x.sum() > 0:\n    x = x @ w\nelse:\n    x = x + 1\nreturn x"
_BOTH = "if x.sum() > 0:\n    x = x - 1\nelse:\n    x = x + 1\nreturn x"
_LOOP = "for _ in range(4):\n    x = {0}\n    if x.sum() > 0:\n        break\nreturn x"


@pytest.mark.parametrize(
    ("codemod", "body"),
    [
        (IfToCond(), _IF),
        (LowerChoice(), _IF),
        (LoopToBound(), _LOOP.format("x @ w")),
    ],
)
def test_products_under_autocast(codemod: Codemod, body: str) -> None:
    assert _made(codemod, body, "x.sum() > 0").safety is Safety.SAFE
    made = _made(codemod, body, "x.sum() > 0", _AMP)
    assert made.safety is Safety.UNSAFE
    assert "utocast" in made.notes[0] or "lower precision" in made.notes[0]


@pytest.mark.parametrize(
    ("codemod", "body"),
    [
        (IfToCond(), _BOTH),
        (LowerChoice(), _BOTH),
        (LoopToBound(), _LOOP.format("x * 0.5")),
    ],
)
def test_sums_have_one_precision(codemod: Codemod, body: str) -> None:
    assert _made(codemod, body, "x.sum() > 0", _AMP).safety is Safety.SAFE


_CLIP = "if x.sum() > 0:\n    p.grad = p.grad * 0.5\nreturn x"


def test_sparse_gradients() -> None:
    assert _made(LowerChoice(), _CLIP, "x.sum() > 0").safety is Safety.SAFE
    table = "\n\ntable = torch.nn.Embedding(9, 3, sparse=True)\n"
    assert _made(LowerChoice(), _CLIP, "x.sum() > 0", table).safety is Safety.UNSAFE


@pytest.mark.parametrize(
    ("limit", "safety"),
    [("limit", Safety.SAFE), ("9", Safety.SAFE), ("self.limit", Safety.UNSAFE)],
)
def test_a_limit_that_may_be_none(limit: str, safety: Safety) -> None:
    body = (
        "n = 0\nwhile True:\n    x = x * 0.5\n    n += 1\n"
        f"    if x.sum() < 1 or n == {limit}:\n        break\nreturn x"
    )
    assert _made(LoopToBound(), body, f"x.sum() < 1 or n == {limit}").safety is safety
