"""Whether the text of a project lets a recurrent layer drop values, and run twice for one pass."""

from __future__ import annotations

import pytest
from gbfix_codemods.operator.packed_rnn import _CHECKPOINTS, _DROPS, _may_be_given


@pytest.mark.parametrize(
    ("text", "drops"),
    [
        ("nn.LSTM(8, 8, num_layers=2, dropout=0.3)", True),
        ("nn.GRU(8, 8, 2, dropout=config.dropout)", True),
        ("nn.GRU(8, 8, dropout = rate)", True),
        ("layer.dropout = 0.5", True),
        ("nn.LSTM(8, 8, num_layers=2)", False),
        ("nn.LSTM(8, 8, dropout=0.0)", False),
        ("nn.LSTM(8, 8, dropout=0, bidirectional=True)", False),
        ("if dropout == 0.5: pass", False),
    ],
)
def test_a_rate_that_is_given_may_drop_values(text: str, drops: bool) -> None:
    assert bool(_DROPS.search(text + "\n")) is drops


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("torch.utils.checkpoint.checkpoint(self.encode, x)", True),
        ("checkpoint_sequential(layers, 2, x)", True),
        ("model.gradient_checkpointing_enable()", True),
        ("save(checkpoint)", False),
    ],
)
def test_a_project_that_checkpoints_activations_says_so(text: str, again: bool) -> None:
    assert bool(_CHECKPOINTS.search(text)) is again


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("nn.LSTM(8, 8, 2, True, False, 0.3)", True),
        ("torch.nn.GRU(8, 8, **options)", True),
        ("LSTM(*sizes)", True),
        ("nn.LSTM(8, 8, 2, True)", False),
        ("nn.Linear(8, 8, **options)", False),
    ],
)
def test_a_rate_may_be_given_by_its_place(text: str, may: bool) -> None:
    assert _may_be_given(text) is may
