"""A mask that an object makes once: who reads it, and what its places select."""

from __future__ import annotations

import ast

import pytest
import torch

from gbfix.analysis.attributes import reads

_CLASS = """
class Loss:
    def __init__(self):
        self.mask = made()

    def forward(self, x):
        return {}


{}
"""


def around(use: str, more: str = "") -> list[str]:
    """The kinds of what stands around each read of ``mask``."""
    text = _CLASS.format(use, more)
    return [type(it[1]).__name__ if it else "?" for it in reads([text], "Loss", "mask")]


def test_reads_of_the_class_and_of_any_object_count() -> None:
    assert around("x[self.mask]") == ["Subscript"]
    assert around("x", "print(loss.mask)") == ["Call"]
    assert around("x", "getattr(loss, 'mask')") == ["?"]
    assert around("x", "getattr(loss, 'scale')") == []


def test_other_classes_read_their_own() -> None:
    other = "class Other{}:\n    def f(self, it):\n        return {}.mask\n"
    assert around("x", other.format("", "self")) == []
    assert around("x", other.format("(Loss)", "self")) == ["Return"]
    assert around("x", other.format("", "it")) == ["Return"]
    assert around("x", "class Base:\n    def f(self):\n        return self.mask\n") == []
    below = _CLASS.replace("class Loss:", "class Loss(Base):").format("x", "")
    base = "class Base:\n    def f(self):\n        return self.mask\n"
    assert len(list(reads([below, base], "Loss", "mask"))) == 1


def test_texts_that_are_no_python_give_nothing_to_trust() -> None:
    assert list(reads(["class Loss(:"], "Loss", "mask")) == [()]


@pytest.mark.parametrize("shape", [(3, 3), (3, 3, 2), (3, 0), (1, 4)])
def test_places_select_what_the_mask_does(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.rand(shape, requires_grad=True)
    for mask in (
        torch.rand(shape[:2]) > 0.5,
        torch.zeros(shape[:2]) > 0,
        torch.ones(shape[:2]) > 0,
    ):
        places = mask.nonzero(as_tuple=True)
        assert torch.equal(x[mask], x[places])
        if mask.shape == x.shape:
            assert torch.equal(torch.masked_select(x, mask), x[places])
        one, other = (torch.autograd.grad(it.square().sum(), x)[0] for it in (x[mask], x[places]))
        assert torch.equal(one, other)


def test_the_codemod_knows_what_may_be_somebody_elses() -> None:
    from gbfix_codemods.recipes import fixed_mask

    read = ast.parse("x[self.mask]").body[0].value.slice  # type: ignore[attr-defined]
    assert not fixed_mask._only_reads(())
    assert not fixed_mask._only_reads((read, ast.Return(read)))
    assert not fixed_mask._only_reads((read, ast.keyword("out", read)))
