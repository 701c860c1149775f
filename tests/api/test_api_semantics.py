"""What the rewritten forms rest on, measured with the installed torch."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.autograd import Variable

BACKENDS = ("eager", "aot_eager")


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()


def _leaf() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(3, requires_grad=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2),
        _leaf,
        lambda: _leaf() * 2,
        lambda: nn.Parameter(torch.ones(2)),
        lambda: torch.ones(4, 2).t()[1],
        lambda: torch.ones(0),
    ],
)
def test_variable_gives_what_detach_gives(make: Callable[[], torch.Tensor]) -> None:
    given = make()
    old, new = Variable(given), given.detach()
    assert type(old) is type(new) is torch.Tensor
    assert old.requires_grad == new.requires_grad is False
    assert old.grad_fn is new.grad_fn is None
    assert old.data_ptr() == new.data_ptr() == given.data_ptr()
    assert old.stride() == new.stride()
    given.detach().add_(1)
    assert torch.equal(old, new)
    assert old._version == new._version


def test_volatile_only_warns() -> None:
    with pytest.warns(UserWarning, match="volatile was removed"):
        old = Variable(torch.ones(2), volatile=True)
    assert not old.requires_grad


def test_user_made_breaks_do_nothing_in_eager() -> None:
    for function in (
        torch._dynamo.graph_break,
        torch._dynamo.skip_frame,
        torch._dynamo.decorators.step_unsupported,
    ):
        assert function() is None


def test_both_forms_of_catch_warnings_set_the_same_filter() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        first = copy.copy(warnings.filters)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        second = copy.copy(warnings.filters)
    assert first == second


def _silenced(x: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings(action="ignore"):
        return x.sin() * 2


def _walks(x: torch.Tensor) -> torch.Tensor:
    items = iter([x, x * 2])
    return next(items) * next(items)


def _without_history(x: torch.Tensor) -> torch.Tensor:
    return x.detach() * x + x.exp().sum().detach() / x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [_silenced, _walks, _without_history])
def test_rewritten_forms_are_one_graph_with_the_same_gradients(
    function: Callable[[torch.Tensor], torch.Tensor], backend: str
) -> None:
    results = []
    for run in (function, torch.compile(function, backend=backend, fullgraph=True)):
        x = _leaf()
        y = run(x)
        y.sum().backward()
        results.append((y, x.grad))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layer", [nn.GRU, nn.RNN])
def test_recurrent_layers_train_where_they_are_allowed(
    layer: Callable[[int, int], nn.Module], backend: str
) -> None:
    torch.manual_seed(0)
    net = layer(3, 4)

    def encode(x: torch.Tensor) -> torch.Tensor:
        return net(x)[0]

    allowed = torch._dynamo.config.patch(allow_rnn=True)(
        torch.compile(encode, backend=backend, fullgraph=True)
    )
    x = torch.randn(2, 2, 3)
    gradients = []
    for run in (encode, allowed):
        net.zero_grad()
        run(x).sum().backward()
        gradients.append([parameter.grad for parameter in net.parameters()])
    torch.testing.assert_close(gradients[1], gradients[0])
    assert not torch._dynamo.config.allow_rnn


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("of", ["same", torch.int64, torch.uint8])
def test_a_0d_tensor_does_for_a_number(dtype: torch.dtype, of: str | torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(50).to(dtype)
    for value in (0.0, 1.0, 3.0, 200.0):
        t = torch.tensor(value).to(dtype if isinstance(of, str) else of)
        for operate in (torch.add, torch.sub, torch.mul, torch.div):
            torch.testing.assert_close(operate(x, t), operate(x, t.item()), equal_nan=True)
