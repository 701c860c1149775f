"""Which sizes have to be seen: what torch's symbols say of them."""

from __future__ import annotations

import pytest
import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from gbfix.worker.sizes import _bounds, _possible

U, V = sympy.symbols("u0 u1", integer=True)


@pytest.mark.parametrize(
    "size, squeezes, expected",
    [
        (U, False, (0, 1)),
        (U - 1, False, (0, 1)),
        (U + 1, False, (1,)),  # one more than an index
        (3 * U, False, (0,)),
        (3 * U + 1, False, ()),
        (U + V, False, ()),  # each of the two was seen
        (U + V, True, (1,)),
    ],
)
def test_what_a_size_can_be(size: sympy.Expr, squeezes: bool, expected: tuple[int, ...]) -> None:
    assert _possible(size, squeezes) == expected


def test_the_least_of_a_sum_is_known() -> None:
    environment = ShapeEnv()
    symbol = environment.create_unbacked_symint()
    torch._check(symbol >= 2)
    assert int(_bounds(environment, symbol.node.expr).lower) == 2
    assert int(_bounds(environment, symbol.node.expr + 3).lower) == 5
    assert _bounds(None, symbol.node.expr) is None
