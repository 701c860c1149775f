"""Torch's print operator prints what `print` printed, under every backend."""

from __future__ import annotations

import pytest
import torch
from effect_trials import check, proposals
from gbfix_codemods.side_effects.print_to_hop import PrintToHop

X = torch.arange(6.0).reshape(2, 3)
CALLS = [(X,), (X * 3,), (X[:, :2] + 1,)]
TRAIN = [(X.clone().requires_grad_(),), ((X + 1).clone().requires_grad_(),)]

PROGRAM = """
import torch


def f(x, n=3, name="a{{b", rate=0.1, flag=True):
    y = x * 2
    {}
    return y + 1
"""


@pytest.mark.parametrize(
    "line",
    [
        "print()",
        'print("")',
        'print("a {} %d", 3, None, -0.0, 1e-7, sep="{-}", end=None)',
        "print('it\\'s', \"x\", '\\\\ \\t é', r'\\n', sep='')",
        'print("y", y, y.sum(), y > 2, y.long(), y.dtype, y.device)',
        "print(n, name, rate, flag, y.shape[0], len(y), y.numel(), y.dim(), y.size(0) / 7)",
        'print(f"{y.sum():>9.2f}|{y.max()}|{y.max()!r}|{n:05d}|{name:>8}|{y!s}|{{}}")',
        'print(rf"\\d {n}" "tail {}", n)',
        'print("{} {:.2f} {!r:>6}".format(n, y.max(), n))',
    ],
)
def test_the_text_is_the_same(line: str) -> None:
    check(PrintToHop(), PROGRAM.format(line), line, CALLS)


@pytest.mark.parametrize("line", ['print(f"{y.mean():.3f}", y.detach())', 'print("n", n)'])
def test_training_goes_on_through_it(line: str) -> None:
    check(PrintToHop(), PROGRAM.format(line), line, TRAIN)


@pytest.mark.parametrize("line", ["print(y)", "print(y.sum())", 'print(f"{y.sum()!r}")'])
def test_a_grad_fn_in_the_text_is_refused(line: str) -> None:
    assert proposals(PrintToHop(), PROGRAM.format(line), line, TRAIN) == ([], [])


def test_values_are_those_of_the_moment() -> None:
    """Later in-place changes of inputs, intermediates and views do not show."""
    check(
        PrintToHop(),
        """
        import torch


        def f(x):
            y = x * 2
            row = y[0]
            y.mul_(3)
            print("row", row, x)
            row.add_(1)
            x.sub_(5)
            return y + x
        """,
        'print("row", row, x)',
        CALLS,
    )


def test_a_print_in_a_loop_comes_in_order() -> None:
    check(
        PrintToHop(),
        """
        import torch


        def f(xs):
            total = xs[0] * 0
            for i, x in enumerate(xs):
                total = total + x
                print("step", i, total)
            return total
        """,
        'print("step", i, total)',
        [([X, X + 1, X * 2],), ([X, X],)],
    )
