"""A launch of a triton kernel gets advice, and no patch; triton itself is not needed for that."""

from __future__ import annotations

import pytest
from gbfix_codemods.wrap.custom_op import WrapInCustomOp

from gbfix.codemod import Advice, NearMiss, example_site, tensor

PROGRAM = """
import torch
import triton
from triton import jit


{decorator}
def double(source, result, size):
    pass


def f(x):
    out = torch.empty_like(x)
    {launch}
    return out
"""
LAUNCH = "double[(1,)](x, out, x.numel())"


def _proposals(decorator: str, launch: str) -> list[object]:
    source = PROGRAM.format(decorator=decorator, launch=launch)
    case = NearMiss(source, at=launch, why="", facts={"x": tensor(3), "out": tensor(3)})
    return list(WrapInCustomOp().propose(example_site(case, "GB0007")))


@pytest.mark.parametrize(
    "decorator", ["@triton.jit", "@jit", "@triton.jit()", "@triton.autotune([], [])\n@triton.jit"]
)
def test_a_launch_is_advised_to_become_a_triton_op(decorator: str) -> None:
    (advice,) = _proposals(decorator, LAUNCH)
    assert isinstance(advice, Advice)
    for part in ("torch.library.triton_op", "torch.library.wrap_triton(double)", "mutates_args"):
        assert part in advice.text


@pytest.mark.parametrize(
    ("decorator", "launch"),
    [
        ("@torch.no_grad()", LAUNCH),
        ("@triton.jit", "tables[(1,)](x, out, x.numel())"),
        ("@triton.jit", "double(x, out, x.numel())"),
    ],
)
def test_other_calls_are_not_taken_for_launches(decorator: str, launch: str) -> None:
    assert not any("triton" in getattr(item, "text", "") for item in _proposals(decorator, launch))
