"""Which pieces of code may become an operator."""

from __future__ import annotations

import pytest
from gbfix_codemods.operator.gradients import _has_arrays
from gbfix_codemods.operator.wrap_piece import WrapPiece

from gbfix.codemod import Example, Rewrite, example_site, tensor

_CAUGHT = """import torch


def f(x, bias):
    try:
        y = x + bias
    except Exception:
        y = x
    return y
"""


def test_no_piece_stands_in_a_try_or_takes_it_along() -> None:
    """Inside of it, an operator raises when no handler is there; and what an operator does not
    take, its call would refuse outside of the handlers.
    """
    facts = {"x": tensor(3), "bias": tensor(5), "y": tensor(3)}
    site = example_site(Example(_CAUGHT, "", at="x + bias", facts=facts), "torch-runtime-error")
    assert not [item for item in WrapPiece().propose(site) if isinstance(item, Rewrite)]


@pytest.mark.parametrize(
    ("line", "arrays"),
    [
        ("low = np.log(np.exp(1 - LEAST) - 1)", False),
        ("low = np.float32", False),
        ("low = np.log(x)", True),
        ("low = torch.from_numpy(x)", True),
        ("low = x.detach().numpy().min()", True),
    ],
)
def test_numbers_of_numpy_are_no_arrays(line: str, arrays: bool) -> None:
    source = f"import numpy as np\nimport torch\n\nLEAST = 0.1\n\n\ndef f(x):\n    {line}\n"
    source += "    return x.clamp(low)\n"
    site = example_site(Example(source, "", at="x.clamp(low)", title=""), "GB0036")
    assert site.function is not None
    assert _has_arrays(site, site.function) is arrays
