"""A launch of a triton kernel gets advice, and no patch; triton itself is not needed for that."""

from __future__ import annotations

import dataclasses

import libcst as cst
import pytest
from gbfix_codemods.wrap.custom_op import WrapInCustomOp
from gbfix_codemods.wrap.triton_kernel import written_by

from gbfix.codemod import Advice, NearMiss, Site, StatedFacts, example_site, tensor
from gbfix.schema import Frame

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


ADD = """
def add(x_ptr, y_ptr, out_ptr, size, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < size
    row = out_ptr + offsets * stride
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(row, total, mask=mask)
"""
COUNT = """
def count(x_ptr, out_ptr, seen_ptr, size):
    i = tl.program_id(0)
    place = out_ptr
    place += i
    tl.atomic_add(place, tl.load(x_ptr + i))
    tl.store(seen_ptr, 1)
"""


@pytest.mark.parametrize(
    ("source", "written"),
    [(ADD, ("out_ptr",)), (COUNT, ("out_ptr", "seen_ptr")), ("def none(x): tl.load(x)", ())],
)
def test_what_a_kernel_writes_to(source: str, written: tuple[str, ...]) -> None:
    kernel = cst.parse_module(source).body[0]
    assert isinstance(kernel, cst.FunctionDef)
    assert written_by(kernel) == written


def test_the_interpreter_is_told_apart() -> None:
    case = NearMiss(
        PROGRAM.format(decorator="@triton.jit", launch=LAUNCH),
        at=LAUNCH,
        why="",
        facts={"x": tensor(3), "out": tensor(3)},
    )
    site = example_site(case, "GB0007")
    inside = Frame("/somewhere/triton/runtime/interpreter.py", 9, "run", in_project=False)
    found = dataclasses.replace(site.graph_break, frames=(*site.graph_break.frames, inside))
    again = Site(site.path, site.source, found, StatedFacts(case.facts), entry=site.path)
    (advice,) = WrapInCustomOp().propose(again)
    assert isinstance(advice, Advice)
    assert "TRITON_INTERPRET" in advice.text and "triton_op" not in advice.text
