"""``torch.equal`` is no question about values alone: ``(4, 3)`` and ``(1, 3)`` are not equal."""

from __future__ import annotations

from gbfix_codemods.choice import tests


def test_no_comparison_of_values_stands_for_equal() -> None:
    # It would broadcast; `if-to-cond` asks for the shapes first.
    assert "torch.equal" not in tests._QUESTIONS
