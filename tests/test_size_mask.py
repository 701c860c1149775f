"""The forms that `size-mask` writes give what the masks give, for small sizes and any strides."""

import pytest
import torch

FORMS = {
    "diagonal": (
        lambda n: torch.eye(n).bool(),
        lambda x, n: x.view(n, n).diagonal().clone(),
    ),
    "others": (
        lambda n: ~torch.eye(n).bool(),
        lambda x, n: x.flatten()[1:].view(n - 1, n + 1)[:, :-1].clone().flatten(),
    ),
    "triu": (
        lambda n: torch.triu(torch.ones(n, n), 1).bool(),
        lambda x, n: x.view(n, n)[torch.triu_indices(n, n, 1, device=x.device).unbind()],
    ),
    "tril": (
        lambda n: torch.tril(torch.ones(n, n), -2).bool(),
        lambda x, n: x.view(n, n)[torch.tril_indices(n, n, -2, device=x.device).unbind()],
    ),
}


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("n", range(1, 6))
@pytest.mark.parametrize("transposed", [False, True])
def test_the_same_elements_in_the_same_order(kind, n, transposed):
    mask, form = FORMS[kind]
    x = torch.arange(float(n * n)).view(n, n)
    x = x.t() if transposed else x
    old, new = x[mask(n)], form(x, n)
    assert torch.equal(old, new)
    assert old.stride() == new.stride() or old.numel() < 2
    assert new.numel() == 0 or new.data_ptr() != x.data_ptr()
    before = x.clone()
    new.add_(1)
    assert torch.equal(x, before), "a tensor of its own"


@pytest.mark.parametrize("kind", FORMS)
def test_another_size_is_an_error_as_before(kind):
    mask, form = FORMS[kind]
    x = torch.randn(3, 4)
    with pytest.raises(IndexError):
        x[mask(3)]
    with pytest.raises((IndexError, RuntimeError)):
        form(x, 3)
