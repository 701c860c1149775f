"""A moved print prints the same text, as often and in the same order, under every backend."""

from __future__ import annotations

import pytest
import torch
from effect_trials import check, proposals
from gbfix_codemods.side_effects.print_to_op import PrintToOp

X = torch.arange(6.0).reshape(2, 3)
CALLS = [(X,), (X * 3,), (X[:, :2] + 1,)]
TRAIN = [(X.clone().requires_grad_(),), ((X + 1).clone().requires_grad_(),)]

PROGRAM = """
import sys
import torch


def f(x, n=3, name="run"):
    y = x * 2
    {}
    return y + 1
"""


@pytest.mark.parametrize(
    "line",
    [
        'print("constant {} %d", 3, None, sep="-", end="!\\n")',
        "print()",
        'print("y", y, y.sum(), y.shape, y.dtype, y.device)',
        'print(f"{y.mean().item():.3f} {y.sum():>9.2f} {y.mean()=} {n!r} {name:>8}")',
        'print("%s %.4f %d" % (name, y.mean().item(), y.shape[0]))',
        'print("{} {:.2f}".format(name, y.max()), flush=True)',
        "print([v.item() for v in y[0]], {'n': n}, (n, name), y.tolist())",
        "print(y if n > 2 else None, torch.isnan(y).any(), len(y), y[0, :1])",
        "print(1e-7, -0.0, float('nan'), n / 3, y.numel() / 7)",
    ],
)
def test_the_text_is_the_same(line: str) -> None:
    check(PrintToOp(), PROGRAM.format(line), line, CALLS)


@pytest.mark.parametrize(
    "line",
    [
        'print(f"{y.mean().item():.3f}", y.shape)',
        'print(f"{y.mean():.3f}", y.detach())',
        "print(y.tolist())",
    ],
)
def test_training_goes_on_through_it(line: str) -> None:
    check(PrintToOp(), PROGRAM.format(line), line, TRAIN)


@pytest.mark.parametrize("line", ["print(y)", "print(y * 2)", "print(str(y))", "print([y])"])
def test_a_grad_fn_in_the_text_is_refused(line: str) -> None:
    rewrites, advice = proposals(PrintToOp(), PROGRAM.format(line), line, TRAIN)
    assert not rewrites and "grad_fn" in advice[0].text


def test_values_are_those_of_the_moment() -> None:
    """Later in-place changes of inputs, intermediates and views do not show."""
    check(
        PrintToOp(),
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
        PrintToOp(),
        """
        import torch


        def f(xs):
            total = xs[0] * 0
            for i, x in enumerate(xs):
                total = total + x
                print("step", i, total, len(xs))
            return total
        """,
        'print("step", i, total, len(xs))',
        [([X, X + 1, X * 2],), ([X, X],)],
    )


def test_to_stderr_and_through_a_global_handle() -> None:
    for target in ("sys.stderr", "HANDLE"):
        check(
            PrintToOp(),
            f"""
            import sys
            import torch

            class Handle:
                def write(self, text):
                    return sys.stderr.write(text)

            HANDLE = Handle()


            def f(x):
                print("a", x, file={target})
                return x + 1
            """,
            f'print("a", x, file={target})',
            CALLS,
            stderr=False,
        )


def test_other_ways_to_write_the_file() -> None:
    """An alias of torch, lazy annotations, tabs and CRLF, a nested function, an async one."""
    patched = check(
        PrintToOp(),
        "from __future__ import annotations\r\nimport torch as T\r\n\r\ndef f(x):\r\n"
        "\tdef g(y):\r\n\t\t# why\r\n\t\tprint(y,\r\n\t\t\tx)  # so\r\n\t\treturn y\r\n"
        "\treturn g(T.relu(x))\r\n",
        "print(y,\r\n\t\t\tx)",
        CALLS,
    )
    assert "T.library" in patched and "\n" not in patched.replace("\r\n", "")
    assert "# why" in patched and "# so" in patched


def test_a_float_that_comes_from_a_tensor() -> None:
    check(
        PrintToOp(),
        """
        import torch


        def f(x):
            m = x.mean().item()
            k = (x > 1).sum().item()
            print("m", m, k)
            return x + 1
        """,
        'print("m", m, k)',
        CALLS,
    )


def test_callers_may_give_other_numbers_or_nothing() -> None:
    """The facts are those of the first call alone."""
    check(
        PrintToOp(),
        """
        import torch


        def f(x, n=3, mask=None, name=None):
            print(n, mask, name, flush=True)
            return x + 1
        """,
        "print(n, mask, name, flush=True)",
        [(X, 3, X > 1, "a"), (X, 0.5, None, None), (X, True), (X, 4), (X, 5, None, "b")],
    )
