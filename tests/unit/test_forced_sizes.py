"""Where a number or a selection stands that decides on a size."""

from __future__ import annotations

import pytest

from gbfix.forced_sizes import place_on


@pytest.mark.parametrize(
    "line, found",
    [
        ("n = int(x.max()) + 1", "int(x.max())"),
        ("n = x.max().item()", "x.max().item()"),
        ("n = int(x.max().item())", "x.max().item()"),
        ("y = x[mask]", "x[mask]"),
        ("y = x[(x > 0) & mask]", "x[(x > 0) & mask]"),
        ("y = mask.nonzero().reshape(-1)", "mask.nonzero()"),
        ("rows, columns = torch.where(x > 0)", "torch.where(x > 0)"),
        ("y = torch.where(x > 0, x, y)", ""),  # no size
        ("y = x[mask] + z[other]", ""),  # which of the two?
        ("x[mask] = 0", ""),  # written to
        ("y = x[0]", ""),
        ("y = x[1:]", ""),
        ("n = int(3)", ""),
        ("y = (", ""),
    ],
)
def test_the_one_place_on_a_line(line: str, found: str) -> None:
    place = place_on(f"import torch\n{line}\n", 2)
    assert (line[place.column : place.end_column] if place else "") == found
