"""A class of `torch.autograd.Function` as an operator: what its backward may rely on."""

from __future__ import annotations

import pytest
from gbfix_codemods.operator.wrap_piece import WrapPiece

from gbfix.codemod import Example, Rewrite, example_site, tensor

_SOURCE = """
import torch

LIMIT = 3
TABLE = {{}}


class Best(torch.autograd.Function):
    boost = 1.0

    @staticmethod
    def forward(ctx, x, prior):
        order = sorted(x.tolist())
        {forward}
        return torch.tensor(order) * 2

    @staticmethod
    def backward(ctx, grad):
        {backward}

    @staticmethod
    def width(x):
        return len(x)


@torch.compile
def f(h, prior):
    return Best.apply(h, prior).sum()
"""
_APPLY = "Best.apply(h, prior)"
_FACTS = {
    "h": tensor(4, requires_grad=True),
    "prior": tensor(4),
    _APPLY: tensor(4, requires_grad=True),
}


def _patched(forward: str = "pass", backward: str = "return grad * 2, None") -> str:
    """The text with the operator, or ""."""
    source = _SOURCE.format(forward=forward, backward=backward)
    case = Example(source, "", at=_APPLY, facts=_FACTS, title="")
    for item in WrapPiece().propose(example_site(case, "GB0007")):
        if isinstance(item, Rewrite) and "class BestKept" in item.edits["example.py"]:
            return item.edits["example.py"]
    return ""


def test_the_second_operator_runs_forward_and_backward_of_the_class() -> None:
    text = _patched()
    assert "return best_op(h, prior).sum()" in text
    assert "    ctx = BestKept(True, False)\n    Best.forward(ctx, h, prior)\n" in text
    assert "    grads = Best.backward(ctx, grad)\n" in text
    assert "return best_op_backward(grad, h, prior), None" in text


def test_what_the_class_does_not_keep_is_copied() -> None:
    """The program may change an argument before the backward; the class never read it again."""
    assert "ctx.save_for_backward(h.clone(), prior.clone())" in _patched()
    text = _patched("ctx.save_for_backward(x)")
    assert "ctx.save_for_backward(h, prior.clone())" in text


@pytest.mark.parametrize(
    "forward",
    [
        "ctx.gain = Best.boost",  # a schedule may set it before the backward
        "ctx.gain = TABLE['gain']",
        "global LIMIT; LIMIT = 4",
        "TABLE[len(order)] = 1",
        "ctx.mark_dirty(x)",
        "ctx.set_materialize_grads(False)",
        "order = (x @ prior).tolist()",
        "order = torch.rand(4).tolist()",
        "print(order)",
    ],
)
def test_what_would_differ_when_it_runs_again_is_refused(forward: str) -> None:
    assert not _patched(forward)


@pytest.mark.parametrize("forward", ["ctx.gain = LIMIT", "ctx.n = Best.width(order)"])
def test_numbers_of_the_module_and_own_methods_stay_what_they_are(forward: str) -> None:
    assert _patched(forward)


@pytest.mark.parametrize(
    "backward",
    [
        "return grad, None if ctx.needs_input_grad[0] else grad",
        "return (grad, None) if grad.sum() > 0 else (None, grad)",
        "return None, None",
    ],
)
def test_a_backward_must_say_which_gradients_it_gives(backward: str) -> None:
    found = _patched(backward=backward)
    # An expression that may be None is a gradient by its text: the operator would raise there.
    assert not found or "None if" in backward
