"""Parts of one tensor that a branch gives: their copies have the layout of a computed tensor."""

from __future__ import annotations

import libcst as cst
import pytest
import torch
from gbfix_codemods.control_flow.branches import _parts_of_one


def parts(text: str) -> set[str]:
    return set(_parts_of_one(cst.parse_module(text).body))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("q, k, v = x.chunk(3, dim=-1)\n", {"q", "k", "v"}),
        ("if a:\n    k, v = linear(x, w).split(4, -1)\n", {"k", "v"}),
        ("q = x.chunk(3, -1)\n", set()),
        ("scale, shift = image.chunk(2, dim=1)\n", set()),
        ("a, b = x.chunk(2)\n", set()),
        ("a, b = x.topk(2)\n", set()),
        ("a, b = chunk(x, 2)\n", set()),
    ],
)
def test_names_of_parts(text: str, names: set[str]) -> None:
    assert parts(text) == names


def test_without_elements_a_plain_copy_keeps_the_strides_of_the_whole() -> None:
    whole = torch.empty(0, 4, 12)
    part = whole.chunk(3, dim=-1)[0]
    computed = torch.empty(0, 4, 4)
    assert part.clone().stride() != computed.stride()
    assert part.clone(memory_format=torch.contiguous_format).stride() == computed.stride()
