"""Recurrent layers are not run on inputs of another width, which torch reads past their end."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from gbfix.worker.unchecked import recurrent_inputs_checked


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_rows_of_another_width_are_refused(kind: type[nn.RNNBase]) -> None:
    layer = kind(4, 4)
    rows = torch.ones(2, 3, 5)
    with recurrent_inputs_checked(), pytest.raises(RuntimeError, match="Expected 4, got 5"):
        layer(pack_padded_sequence(rows, torch.tensor([2, 1, 1]), enforce_sorted=False))


def test_other_inputs_and_other_layers_are_run() -> None:
    with recurrent_inputs_checked():
        assert nn.LSTM(4, 4)(torch.ones(2, 3, 4))[0].shape == (2, 3, 4)
        assert nn.Linear(5, 4)(torch.ones(2, 5)).shape == (2, 4)
    assert not torch.nn.modules.module._global_forward_pre_hooks
