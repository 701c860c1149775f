"""What branches of torch.cond only compare: a second proposal reads it detached."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.control_flow.if_to_cond import IfToCond

from gbfix.codemod import Example, Rewrite, example_site
from gbfix.schema import Fact

_TENSOR = Fact("tensor", "torch.Tensor", dtype="torch.float32", shape=(3,), requires_grad=False)
_SOURCE = """\
import torch

def gate(x, limit):
    level = x.square().sqrt()
    {above}if (level < limit).all():
        return x * 0.5
    return {other}
"""


def _proposals(other: str, above: str = "") -> list[str]:
    source = textwrap.dedent(_SOURCE).format(other=other, above=above)
    test = "(level < limit).all()"
    truth = Fact("tensor", "torch.Tensor", dtype="torch.bool", shape=())
    case = Example(source, source, test, {"x": _TENSOR, "level": _TENSOR, test: truth})
    made = IfToCond().propose(example_site(case, "GB0170"))
    return [it.edits["example.py"] for it in made if isinstance(it, Rewrite)]


def test_a_tensor_that_is_only_compared_is_read_detached() -> None:
    first, second = _proposals("torch.where(level < limit, x * 0.1, x)", "# Quiet?\n    ")
    assert "detach" not in first
    assert second == textwrap.dedent(
        """\
        import torch

        def gate(x, limit):
            level = x.square().sqrt()
            # Quiet?
            level_value = level.detach()
            return torch.cond(
                (level < limit).all(),
                lambda: x * 0.5,
                lambda: torch.where(level_value < limit, x * 0.1, x),
            )
        """
    )


@pytest.mark.parametrize(
    "other",
    [
        "torch.where(level < limit, level, x)",
        "x * (level < limit) / level",
        "torch.where(x < limit, x * 0.1, x)",
    ],
)
def test_nothing_that_gets_a_gradient_is_detached(other: str) -> None:
    assert len(_proposals(other)) == 1
