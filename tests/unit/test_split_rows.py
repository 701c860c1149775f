"""Loops over parts of rows: what is computed of a part has to look at each row alone."""

from __future__ import annotations

import pytest
from gbfix_codemods.choice.loops_split import SplitToMasks

from gbfix.codemod import Example, Rewrite, example_site, tensor
from gbfix.schema import Safety

SOURCE = """
import torch


def f(w, x, counts):
    outputs = []
    for i, part in enumerate(torch.split(x, counts.tolist())):
        outputs.append({})
    out = torch.cat(outputs)
    return out
"""


@pytest.mark.parametrize(
    "value, safe",
    [
        ("part @ w[i]", True),
        ("torch.relu(part @ w[i]) * 2", True),
        ("torch.where(part.abs().mean() > 10, part * 0.1, part)", False),
        ("part.sum(0, keepdim=True)", False),
        ("(part - part.mean(0)) @ w[i]", False),
        ("(part @ w[i]).sqrt()", False),  # no finite derivative at zero, and a weight learns
        ("w[part.long()][:, 0]", False),
    ],
)
def test_what_mixes_rows_is_unsafe(value: str, safe: bool) -> None:
    facts = {
        "w": tensor(4, 3, 3),
        "w[i]": tensor(3, 3),
        "x": tensor(10, 3),
        "counts": tensor(4, dtype="torch.int64"),
        "part": tensor(2, 3),
        "part @ w[i]": tensor(2, 3),
        "torch.relu(part @ w[i])": tensor(2, 3),
        value: tensor(2, 3),
    }
    case = Example(SOURCE.format(value), "", at="counts.tolist()", facts=facts)
    (made,) = SplitToMasks().propose(example_site(case, "GB0033"))
    assert isinstance(made, Rewrite)
    assert made.safety is (Safety.SAFE if safe else Safety.UNSAFE)
