"""Which tensors of an object a piece of code writes to."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest
from gbfix_codemods.operator.inputs import places_written


def written(body: str) -> frozenset[str] | None:
    return places_written(list(cst.parse_module(textwrap.dedent(body)).body))


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ("self.a[0] = x", {"self.a"}),
        ("self.a[i][j] += x", {"self.a"}),
        ("self.a.mul_(2).add_(x)", {"self.a"}),
        (
            "if x.any():\n    self.part.b.fill_(1)\nself.a[:2] = self.c[:2]",
            {"self.part.b", "self.a"},
        ),
        ("y = self.a + x\ny.add_(1)", set()),
    ],
)
def test_places(body: str, places: set[str]) -> None:
    assert written(body) == places


@pytest.mark.parametrize(
    "body",
    [
        "self.a = x",
        "self.n += 1",
        "torch.add(x, 1, out=self.a)",
        "self.seen.append(x)",
        "row = self.a[0]\nrow.zero_()",
        "for row in self.a:\n    row.zero_()",
    ],
)
def test_other_changes_of_the_object_are_none_of_these(body: str) -> None:
    assert written(body) is None
