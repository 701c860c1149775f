"""Where a number or a selection stands that decides on a size."""

from __future__ import annotations

import pytest

from gbfix.forced_sizes import in_both, pick_alike, places_on


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
        ("y = x[mask] + z[mask]", "x[mask]"),
        ("n = x.sum(1).tolist()", "x.sum(1).tolist()"),
        ("n = x.max().item() + y.max().item()", ""),
        ("n = int(x) + int(x)", ""),  # nothing tells that they are the same
        ("y = torch.zeros(x.shape[-1], int(n.sum()))", "int(n.sum())"),
        ("y = x.new_zeros(x.size()[i], int(n.sum()))", "int(n.sum())"),
        ("y = x[i] * torch.ones(int(n.sum()))", "int(n.sum())"),
        ("n = x.shape[-1]", ""),
        ("x[mask] = 0", ""),  # written to
        ("y = x[0]", ""),
        ("y = x[1:]", ""),
        ("n = int(3)", ""),
        ("y = (", ""),
    ],
)
def test_the_one_place_on_a_line(line: str, found: str) -> None:
    places = places_on(f"import torch\n{line}\n", 2)
    assert (places[0][0] if places else "") == found
    assert not places or line[places[0][1].column : places[0][1].end_column] == found


_OLD = """
import torch


def f(x, y, out, mask, other):
    a = x[mask]
    z = out[other]
    out[mask] = a + y[mask]
    out[mask] = x[mask]
    return out


def g(x, mask):
    return x[mask]
"""


def test_what_picks_by_the_same_mask_comes_along() -> None:
    places = places_on(_OLD, 6)
    assert places[0][0] == "x[mask]"
    assert sorted(text for text, _ in places) == [
        "out[mask]",
        "out[mask]",
        "x[mask]",
        "x[mask]",
        "y[mask]",
    ]
    assert [text for text, _ in places_on(_OLD, 14)] == ["x[mask]"]


def test_only_what_stands_in_both_texts_is_forced() -> None:
    new = _OLD.replace("out[mask] = a + y[mask]", "scatter(out, mask, a, y)")
    old_places, new_places = in_both(places_on(_OLD, 6), places_on(new, 6))
    assert [span.line for span in old_places] == [6, 8, 9]
    assert len(new_places) == 3
    assert in_both(places_on(_OLD, 6), ()) == ([], [])


@pytest.mark.parametrize(
    ("body", "alike"),
    [
        ("y = y[mask]\nx = x[mask]", True),
        ("y = y[x > 0]\nz = z[x > 0]", True),
        ("y = y[mask]\nz = torch.where(mask)[0]", True),
        ("y = y[mask]\nx = x[other]", False),
        ("y = y[mask]\nmask = other\nx = x[mask]", False),
        ("y = y[mask]\nmask[0] = True\nx = x[mask]", False),
        ("y = y[mask]\nmask.logical_not_()\nx = x[mask]", False),
        ("y = y[draw() > 0]\nx = x[draw() > 0]", False),
        ("y = y[self.mask]\nx = x[self.mask]", False),
        ("y = y[mask] + z[other]\nx = x[mask]", False),
        ("y = y[mask]\nx = x[mask][: int(z)]", False),
        ("y = y[mask]\nx = x[mask] * z[: other.item()]", False),
    ],
)
def test_what_one_mask_picks_is_as_much(body: str, alike: bool) -> None:
    lines = body.split("\n")
    text = "def f(x, y, z, mask, other):\n" + "".join(f"    {line}\n" for line in lines)
    assert pick_alike(text, {2, len(lines) + 1}) is alike


def test_masks_of_two_functions_are_two() -> None:
    text = "def f(x, mask):\n    return x[mask]\n\n\ndef g(x, mask):\n    return x[mask]\n"
    assert not pick_alike(text, {2, 6})
    assert pick_alike(text, {2})
    assert not pick_alike(text, ())
