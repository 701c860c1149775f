"""Python's whole numbers have no end, those of tensors have 64 bits."""

from __future__ import annotations

import pytest
from gbfix_codemods.data_dependent.follow_number import FollowNumber

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Safety

_FACTS = {
    "x": tensor(3),
    "ids": tensor(5, dtype="torch.int64"),
    "ids.sum()": tensor(dtype="torch.int64"),
    "ids.sum().item()": scalar(5),
}


@pytest.mark.parametrize(
    ("text", "safety"),
    [
        ("x * (n + 1)", Safety.SAFE),
        ("x * (n * 31 + 7)", Safety.SAFE),
        ("x * (n * n)", Safety.SAFE),
        ("x * (n ** 2)", Safety.SAFE),
        ("x * (n % 1000 * 2654435761 % 8)", Safety.SAFE),
        ("x * (n % 1000 * 1099511628211 % 8)", Safety.SAFE),
        ("x * (n * 1099511628211 % 1000)", Safety.UNSAFE),
        ("x * (n * 2654435761 % 1000)", Safety.UNSAFE),
        ("x * (n ** 4)", Safety.UNSAFE),
        ("x * (n * n * n * n)", Safety.UNSAFE),
    ],
)
def test_products_that_may_not_fit(text: str, safety: Safety) -> None:
    source = f"import torch\n\n\ndef f(x, ids):\n    n = ids.sum().item()\n    return {text}\n"
    case = Example(source, "", at="ids.sum().item()", facts=_FACTS, title="")
    (made,) = FollowNumber().propose(example_site(case, "GB0124"))
    assert isinstance(made, Rewrite)
    assert made.safety == safety
