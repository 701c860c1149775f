"""Masks of lengths: which lines decide how wide they are."""

from __future__ import annotations

import pytest

from gbfix.analysis.mask_widths import mask_widths


def function(*lines: str) -> str:
    return "def f(x, lengths, width=None):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    "lines, decides",
    [
        (["return torch.arange(lengths.max())[None] < lengths[:, None]"], {2}),
        (
            [
                "n = int(torch.max(lengths))",
                "places = torch.arange(0, n, device=x.device)",
                "return places.unsqueeze(0) >= lengths.unsqueeze(1)",
            ],
            {2, 3},
        ),
        (
            [
                "if width is None:",
                "    width = lengths.max().long().item()",
                "grid = torch.arange(width, dtype=lengths.dtype).expand(len(lengths), width)",
                "ends = lengths[:, None]",
                "return torch.lt(grid, ends)",
            ],
            {3, 4},
        ),
        (
            [
                "width = width if width else lengths.max().item()",
                "grid = torch.arange(0, width, 1)",
                "grid = grid.unsqueeze(0)",
                "return lengths.unsqueeze(-1).gt(grid)",
            ],
            {2, 3},
        ),
    ],
)
def test_the_longest_and_what_counts_to_it_decide(lines: list[str], decides: set[int]) -> None:
    found = mask_widths(function(*lines))
    assert set(found) == decides
    assert set(found.values()) == {"lengths"}


@pytest.mark.parametrize(
    "lines",
    [
        # Nothing is asked of the lengths: the count is no width of theirs.
        ["n = lengths.max().item()", "return torch.arange(n) * x"],
        # Other lengths.
        ["n = lengths.max().item()", "return torch.arange(n)[None] < x[:, None]"],
        # Not the longest.
        ["n = lengths.min().item()", "return torch.arange(n)[None] < lengths[:, None]"],
        ["n = lengths.sum().item()", "return torch.arange(n)[None] < lengths[:, None]"],
        # Of each row its own.
        ["n = lengths.max(0)", "return torch.arange(n)[None] < lengths[:, None]"],
        # Every second one, and one more.
        ["n = lengths.max()", "return torch.arange(0, n, 2)[None] < lengths[:, None]"],
        ["n = lengths.max()", "return torch.arange(n + 1)[None] < lengths[:, None]"],
        # Which are the same, not which are below.
        ["n = lengths.max()", "return torch.arange(n)[None] == lengths[:, None]"],
        # In another function.
        ["n = lengths.max()", "g = lambda: torch.arange(n)[None] < lengths[:, None]", "return n"],
    ],
)
def test_other_numbers_decide_on_no_mask(lines: list[str]) -> None:
    assert not mask_widths(function(*lines))


def test_a_text_that_is_no_python_has_none() -> None:
    assert not mask_widths("def f(:")
