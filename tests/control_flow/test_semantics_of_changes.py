"""What branches that change things, jump, or ask torch do after rewriting: eager and compiled."""

from __future__ import annotations

import pytest
from branch_programs import check, rewritten
from gbfix_codemods.control_flow.break_to_cond import BreakToCond
from gbfix_codemods.control_flow.break_to_where import BreakToWhere
from gbfix_codemods.control_flow.if_to_cond import IfToCond
from gbfix_codemods.control_flow.select_number import SelectNumber
from gbfix_codemods.control_flow.select_value import SelectValue
from gbfix_codemods.control_flow.while_to_loop import WhileToLoop
from test_semantics import BASE, ONE, XY, Program, X, near_zero, pairs, with_nan

from gbfix.codemod import scalar, tensor
from gbfix.schema import Fact

PROGRAMS = [
    Program(
        "the caller's tensor is changed, and a view sees it",
        """
        def f(x):
            flat = x.view(-1)
            if x.sum() > 0:
                x[0] = 7
                x += 1
            return x * 2, flat * 3
        """,
        "x.sum() > 0",
        {**X, "flat": tensor(6)},
        ONE,
        grads=False,
    ),
    Program(
        "a tensor of the function's own that has a view, with gradients",
        """
        def f(x):
            y = x * 2
            row = y[0]
            if x.sum() > 0:
                y.mul_(3)
            return y + row
        """,
        "x.sum() > 0",
        {**X, "y": tensor(2, 3), "row": tensor(3)},
        ONE,
    ),
    Program(
        "an item of a dict",
        """
        def f(x):
            out = {"h": x * 2, "n": x}
            if x.sum() > 0:
                out["h"] = out["h"] + out["n"]
            return out
        """,
        "x.sum() > 0",
        {**X, "out": Fact("dict", "dict"), 'out["h"]': tensor(2, 3), 'out["n"]': tensor(2, 3)},
        ONE,
    ),
    Program(
        "a round of a loop ends early",
        """
        def f(x, y):
            for i in range(3):
                x = x - y * i
                if x.sum() > 0:
                    y = y * 0.5
                    continue
                x = x + 1
                y = y + x
            return x + y
        """,
        "x.sum() > 0",
        {**XY, "i": scalar(0, constant=False)},
        pairs()[:2],
        # See the note on gradients of "names bound before" in test_semantics.
        grads=False,
    ),
    Program(
        "every other round goes on",
        """
        def f(x):
            for i in range(3):
                if x.sum() > i:
                    x = x * 0.5
                else:
                    continue
                x = x - 1
            return x
        """,
        "x.sum() > i",
        {**X, "i": scalar(0, constant=False)},
        ONE,
    ),
    Program(
        "a number in a tensor",
        """
        def f(x):
            if 0.0 in x:
                x = x + 1
            return x
        """,
        "0.0 in x",
        X,
        [*ONE, with_nan],
    ),
    Program(
        "allclose, with its tolerance",
        """
        def f(x, y):
            if torch.allclose(x, y, atol=0.5):
                return x + y
            return x - y
        """,
        "torch.allclose(x, y, atol=0.5)",
        XY,
        [*pairs(), lambda: (BASE.clone(), BASE + 0.4)],
    ),
    Program(
        "equal, where other shapes are not",
        """
        def f(x, y):
            if not torch.equal(x, y):
                return x + y
            return x - y * 2
        """,
        "torch.equal(x, y)",
        XY,
        [*pairs(), lambda: (BASE.clone(), BASE[:1].clone())],
    ),
    Program(
        "any of several tensors",
        """
        def f(x, y):
            if any(t.isnan().any() for t in (x, y)):
                return x * 2
            return y * 3
        """,
        "any(t.isnan().any() for t in (x, y))",
        XY,
        pairs(),
    ),
    Program(
        "a read number against a variable",
        """
        def f(x, limit=0.1):
            if x.max().item() > limit:
                return x * 2
            return x * 3
        """,
        "x.max().item() > limit",
        {**X, "x.max()": tensor(), "limit": scalar(0.1, constant=False)},
        [*ONE, lambda: (BASE * 0 + 0.1,), lambda: (BASE.clone(), 5.0)],
    ),
    Program(
        "a float that data chooses",
        """
        def f(x):
            scale = 0.1 if x.mean() > 0 else -3
            return x * scale
        """,
        "x.mean() > 0",
        X,
        ONE,
        SelectNumber,
    ),
    Program(
        "an int that an if changes",
        """
        def f(x):
            k = 3
            if x.mean() > 0:
                k = 2
            return x / k - k
        """,
        "x.mean() > 0",
        {**X, "k": scalar(3)},
        ONE,
        SelectNumber,
    ),
    Program(
        "a loop that ends when the data says so",
        """
        def f(x):
            for i in range(5):
                x = x * 0.5
                if x.abs().max() < 0.3:
                    x = x + 10
                    break
                x = x + i * 0.01
            return x
        """,
        "x.abs().max() < 0.3",
        {**X, "i": scalar(0, constant=False)},
        [*ONE, near_zero],
        BreakToCond,
        # Torch 2.13 refuses the backward of a cond with a bool among its results.
        grads=False,
    ),
    Program(
        "the same, with gradients: rounds in vain",
        """
        def f(x):
            for i in range(5):
                x = x * 0.5
                if x.abs().max() < 0.3:
                    x = x + 10
                    break
                x = x + i * 0.01
            return x
        """,
        "x.abs().max() < 0.3",
        {**X, "i": scalar(0, constant=False), "x + i * 0.01": tensor(2, 3)},
        [*ONE, near_zero],
        BreakToWhere,
    ),
    Program(
        "a return out of a loop",
        """
        def f(x):
            for i in range(3):
                x = x * 0.5
                if x.abs().max() < 0.3:
                    return x - 1
            return x.clamp(max=0.2)
        """,
        "x.abs().max() < 0.3",
        {**X, "i": scalar(0, constant=False), "x.clamp(max=0.2)": tensor(2, 3)},
        [*ONE, near_zero],
        BreakToWhere,
    ),
    Program(
        "a loop that counts, and may not run at all, with gradients",
        """
        def f(x):
            n = 0
            while x.abs().max() > 0.5 and n < 3:
                x = x * 0.5 + n
                n += 1
            else:
                x = x * 3
            return x
        """,
        "x.abs().max() > 0.5",
        {**X, "n": scalar(0, constant=False)},
        [*ONE, near_zero],
        WhileToLoop,
    ),
    Program(
        "while True, with a break in the middle",
        """
        def f(x):
            y = x * 2
            while True:
                new = y * 0.5
                if new.abs().max() < 0.3:
                    y = y + 1
                    break
                y = new - 0.01
            return y
        """,
        "new.abs().max() < 0.3",
        {**X, "y": tensor(2, 3), "new": tensor(2, 3)},
        [*ONE, near_zero],
        WhileToLoop,
    ),
    Program(
        "a value or another",
        """
        def f(x, y):
            s = x.sum() or y.sum()
            return x * s + y / s
        """,
        "x.sum() or y.sum()",
        {**XY, "s": tensor()},
        [lambda: (BASE.clone(), BASE + 1)],
        SelectValue,
    ),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_rewritten_program_does_the_same(program: Program) -> None:
    after = rewritten(program.codemod(), program.source, program.at, program.facts, program.nth)
    check(program.source, after, program.inputs, grads=program.grads)


def test_copies_made_without_gradients_are_refused() -> None:
    """Where the branch is not taken, the tensor goes on with its gradient; a copy would not."""
    source = """
        def f(x):
            with torch.no_grad():
                if x.sum() > 0:
                    x = x * 2
            return x
        """
    with pytest.raises(AssertionError, match="would lose its gradient"):
        rewritten(IfToCond(), source, "x.sum() > 0", X)
