"""The text that `packed-rnn-to-op` adds to a file, compared with torch's own packed layers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from gbfix_codemods.operator.packed_text import TEXT
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

_KINDS: dict[str, Callable[..., nn.RNNBase]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *args, **kwargs: nn.RNN(*args, **kwargs, nonlinearity="relu"),
}


@pytest.fixture(scope="module")
def packed_rnn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    text = TEXT.replace("TORCH", "torch").replace("SPACE", "test").replace("NAME", "packed_rnn")
    path: Path = tmp_path_factory.mktemp("packed") / "packed_rnn_of_a_test.py"
    path.write_text(f"import torch\n{text}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.packed_rnn


def _in_three_calls(layer: nn.RNNBase, x: Any, lengths: Any, states: Any, **options: Any) -> Any:
    """What a file says before it is patched."""
    first = options["batch_first"]
    packed = pack_padded_sequence(x, lengths, first, options["enforce_sorted"])
    rows, states = layer(packed, states)
    return (
        pad_packed_sequence(rows, first, options["padding_value"], options["total_length"]),
        states,
    )


def _leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [leaf for part in value for leaf in _leaves(part)]


def _run(function: Callable[..., Any], layer: nn.RNNBase, given: Any, **options: Any) -> Any:
    """Results, their strides, the gradients of all that learns, and the generator's state."""
    x, lengths, states = given
    x = x.clone().requires_grad_()
    states = None if states is None else [it.clone().requires_grad_() for it in states]
    hidden = states if states is None or layer.mode == "LSTM" else states[0]
    layer.zero_grad()
    torch.manual_seed(0)
    results = _leaves(function(layer, x, lengths, hidden, **options))
    loss = sum((it * it.cos()).sum() for it in results if it.is_floating_point())
    assert isinstance(loss, torch.Tensor)
    loss.backward()  # type: ignore[no-untyped-call]
    learns = [x, *(states or []), *layer.parameters()]
    return (
        results,
        [it.stride() for it in results],
        [it.grad for it in learns if it.grad is not None],
        torch.get_rng_state(),
    )


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("batch_first", [False, True], ids=["time", "batch"])
@pytest.mark.parametrize("enforce_sorted", [False, True], ids=["any", "sorted"])
def test_it_computes_what_three_calls_compute(
    packed_rnn: Callable[..., Any],
    kind: str,
    layers: int,
    both: bool,
    batch_first: bool,
    enforce_sorted: bool,
) -> None:
    torch.manual_seed(1)
    layer = _KINDS[kind](
        4,
        5,
        layers,
        bias=not (both and enforce_sorted),
        batch_first=batch_first,
        dropout=0.3 if layers > 1 else 0.0,
        bidirectional=both,
    )
    lengths = torch.tensor([6, 4, 4, 1] if enforce_sorted else [4, 1, 6, 4])
    x = torch.randn((4, 7, 4) if batch_first else (7, 4, 4))
    states = [torch.randn(layers * (1 + both), 4, 5) for _ in range(2 if kind == "lstm" else 1)]
    for total, before, sizes in ((None, None, lengths), (7, states, lengths.tolist())):
        options = {
            "batch_first": batch_first,
            "enforce_sorted": enforce_sorted,
            "padding_value": 1.5,
            "total_length": total,
        }
        given = x, sizes, before
        expected = _run(_in_three_calls, layer, given, **options)
        torch.testing.assert_close(_run(packed_rnn, layer, given, **options), expected)
        layer.eval()
        expected = _run(_in_three_calls, layer, given, **options)
        torch.testing.assert_close(_run(packed_rnn, layer, given, **options), expected)
        layer.train()


def test_more_rows_than_lengths_and_errors_are_as_before(packed_rnn: Callable[..., Any]) -> None:
    layer = nn.GRU(4, 5)
    options: dict[str, Any] = {
        "batch_first": False,
        "enforce_sorted": False,
        "padding_value": 0.0,
        "total_length": None,
    }
    given = torch.randn(7, 4, 4), torch.tensor([2, 3]), None
    expected = _run(_in_three_calls, layer, given, **options)
    torch.testing.assert_close(_run(packed_rnn, layer, given, **options), expected)
    for lengths, changed in (([2, 0], {}), ([2, 3], {"enforce_sorted": True}),
                             ([2, 3], {"total_length": 1})):  # fmt: skip
        for function in (_in_three_calls, packed_rnn):
            with pytest.raises((RuntimeError, ValueError)):
                function(layer, given[0], torch.tensor(lengths), None, **{**options, **changed})


def test_what_the_operator_cannot_do_runs_as_before(packed_rnn: Callable[..., Any]) -> None:
    """Projections, hooks, classes of their own, and autocast."""

    class Own(nn.GRU):
        def forward(self, *args: Any) -> Any:
            rows, states = super().forward(*args)
            return rows, states + 1

    hooked = nn.GRU(4, 5)
    hooked.register_forward_hook(lambda layer, given, result: (result[0], result[1] * 2))
    options: dict[str, Any] = {
        "batch_first": False,
        "enforce_sorted": False,
        "padding_value": 0.0,
        "total_length": None,
    }
    given = torch.randn(7, 2, 4), torch.tensor([2, 3]), None
    for layer in (nn.LSTM(4, 5, proj_size=3), Own(4, 5), hooked):
        expected = _run(_in_three_calls, layer, given, **options)
        torch.testing.assert_close(_run(packed_rnn, layer, given, **options), expected)
    with torch.autocast("cpu"):
        expected = _run(_in_three_calls, nn.GRU(4, 5), given, **options)
        torch.manual_seed(0)
        result = _run(packed_rnn, nn.GRU(4, 5), given, **options)
    assert [it.dtype for it in result[0]] == [it.dtype for it in expected[0]]


def test_the_operators_pass_torchs_own_checks(packed_rnn: Callable[..., Any]) -> None:
    x, states = torch.randn(4, 3, 4), [torch.randn(2, 3, 5)]
    layer = nn.GRU(4, 5, 2, dropout=0.5)
    packed_rnn(layer, x, torch.tensor([4, 2, 1]))
    weights = [weight.detach().requires_grad_() for weight in layer.parameters()]
    for dropout, length in ((0.0, None), (0.0, 4), (0.5, None)):
        tests = ["test_schema", "test_faketensor", "test_autograd_registration"]
        torch.library.opcheck(
            torch.ops.test.packed_rnn_op.default,
            (x.requires_grad_(), torch.tensor([4, 2, 1]), states, weights, "GRU", True, 2, dropout,
             False, True, 0.0, length),
            test_utils=tests if not dropout else tests[1:],
        )  # fmt: skip
