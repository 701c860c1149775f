"""Opaque calls as operators, and pure helpers as nonstrict_trace, against the original in eager."""

from __future__ import annotations

import pytest
import torch
from effect_trials import check, proposals
from gbfix_codemods.wrap.custom_op import WrapInCustomOp
from gbfix_codemods.wrap.helper_to_op import HelperToOp
from gbfix_codemods.wrap.nonstrict_trace import NonstrictTrace

X = torch.arange(12.0).reshape(3, 4).sin()
CALLS = [(X,), (X * 3,), (torch.cat([X, X + 1]),)]
TRAIN = [(X.clone().requires_grad_(),), ((X + 1).clone().requires_grad_(),)]

PROGRAM = """
import ctypes
import numpy as np
import torch

api = ctypes.pythonapi
multiply = api.PyNumber_Multiply
multiply.restype = ctypes.py_object
multiply.argtypes = [ctypes.py_object] * 2


def f(x, n=3):
    y = x * 2
    for i in range(2):
        z = {}
        y = y + z
    return y
"""


@pytest.mark.parametrize(
    ("call", "calls"),
    [
        ("multiply(y, y)", CALLS),
        ("torch.from_numpy(np.unwrap(y.detach().numpy()))", CALLS),
        ("torch.from_numpy(np.unwrap(y.detach().numpy()))", TRAIN),
        ("torch.from_numpy(np.digitize(y.detach().numpy(), np.array([0.0, 0.5])))", CALLS),
        ("torch.from_numpy(np.lexsort(y.detach().numpy()))", CALLS),
    ],
)
def test_an_opaque_call(call: str, calls: list[tuple[torch.Tensor]]) -> None:
    check(WrapInCustomOp(), PROGRAM.format(call), call, calls)


def test_a_result_that_requires_a_gradient_is_refused() -> None:
    call = "multiply(y, y)"
    rewrites, advice = proposals(WrapInCustomOp(), PROGRAM.format(call), call, TRAIN)
    assert not rewrites and "register_autograd" in advice[0].text


def test_a_callee_that_keeps_state_is_called_as_often_and_in_order() -> None:
    """An operator without ordered effects would be merged (the first two) or dropped (the last)."""
    patched = check(
        WrapInCustomOp(),
        """
        import numpy as np
        import torch


        class Extension:
            calls = 0

            def scale(self, x):
                Extension.calls += 1
                return torch.from_numpy(x.numpy() * Extension.calls)


        ext = Extension()
        scale = ext.scale


        def f(x):
            total = x * 0
            for _ in range(3):
                unused = ext.scale(x)
                total = total + 1
            return total + unused
        """,
        "ext.scale(x)",
        CALLS[:2],
    )
    assert "EffectType.ORDERED" in patched


HELPER = """
import math
import torch

RATE = 0.5


def g(x, n, flag=True):
    y = x.sin()
    torch._dynamo.graph_break()
    if flag:
        y = torch.nn.functional.gelu(y) * RATE
    for i in range(n):
        y = y + math.sqrt(i + 1)
    parts = [y, y.cos()]
    parts.append(y * 2)
    return sum(parts), y.reshape(-1)


def f(x, n=2):
    a, b = g(x.exp(), n)
    return a * 2, b
"""


@pytest.mark.parametrize("calls", [CALLS, TRAIN], ids=["plain", "training"])
def test_a_pure_helper_is_traced_without_its_python(calls: list[tuple[torch.Tensor]]) -> None:
    check(NonstrictTrace(), HELPER, "torch._dynamo.graph_break()", calls)


def test_a_helper_that_decides_on_sizes() -> None:
    check(
        NonstrictTrace(),
        """
        import torch


        def g(x):
            torch._dynamo.graph_break()
            if x.shape[0] > 4:
                return x * 2
            return x - x.shape[0]


        def f(x):
            return g(x) + 1
        """,
        "torch._dynamo.graph_break()",
        [(torch.ones(n),) for n in (3, 6, 5, 4, 2)],
    )


def test_a_helper_that_writes_through_another_name_of_its_argument() -> None:
    """Not declared, the change would come too late, or never: what reads it is not ordered."""
    patched = check(
        HelperToOp(),
        """
        import numpy as np
        import torch


        def count(table, index):
            rows = table.numpy()
            flat = rows.reshape(-1)
            np.add.at(flat, index.numpy(), 1.0)


        def f(x):
            table = x * 2
            index = torch.arange(x.shape[0]) // 2
            before = table.sum()
            count(table, index)
            between = table.clone()
            count(table, index)
            return before, between, table.cos()
        """,
        "np.add.at(flat, index.numpy(), 1.0)",
        CALLS,
    )
    assert 'mutates_args=("table",)' in patched
