"""Launches of triton kernels, as text: triton itself is not needed for that."""

from __future__ import annotations

import dataclasses

import libcst as cst
import pytest
from gbfix_codemods.wrap.capture import Refused
from gbfix_codemods.wrap.custom_op import WrapInCustomOp
from gbfix_codemods.wrap.triton_kernel import written_by
from gbfix_codemods.wrap.triton_op import TritonOp
from gbfix_codemods.wrap.triton_writes import Kernel, find_kernel, may_write

from gbfix.codemod import Advice, NearMiss, Rewrite, Site, StatedFacts, example_site, tensor
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


KERNELS = """
import triton
import triton.language as tl
from triton.language import store


@triton.jit
def put(ptr, value):
    tl.store(ptr, value)


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, size, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
{body}
"""
WRITES = [
    ("tl.store(out_ptr + i, tl.load(x_ptr + i), mask=i < size)", {"out_ptr"}),
    ("store(out_ptr + i, 1)", {"out_ptr"}),
    ("tl.store(value=tl.load(x_ptr), pointer=out_ptr)", {"out_ptr"}),
    ("tl.store(out_ptr + tl.load(x_ptr + i), tl.load(y_ptr + i))", {"out_ptr"}),
    ("tl.atomic_add(out_ptr + i, tl.atomic_cas(y_ptr, 0, 1))", {"out_ptr", "y_ptr"}),
    ("put(out_ptr + i, tl.load(x_ptr))", {"out_ptr"}),
    ("put(value=x_ptr, ptr=out_ptr)", {"out_ptr"}),
    (
        "p = tl.make_block_ptr(out_ptr, (size,), (1,), (0,), (16,), (0,))\ntl.store(p, 1)",
        {"out_ptr"},
    ),
    ("p = tl.make_tensor_descriptor(y_ptr, [size], [1], [16])\np.store([0], 1)", {"y_ptr"}),
    (
        "p = x_ptr if BLOCK > 8 else y_ptr\nwhile size:\n    q = p\n    p += 1\ntl.store(q, 0)",
        {"x_ptr", "y_ptr"},
    ),
    ("a, b = x_ptr, i\nx_ptr += size\ntl.store(x_ptr, tl.load(a))", {"x_ptr"}),
]


def _kernel(body: str) -> Kernel:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = KERNELS.format(body=lines)
    site = example_site(NearMiss(source, at="kernel", why=""), "GB0216")
    found = find_kernel(site, cst.Name("kernel"))
    assert found is not None
    return found


@pytest.mark.parametrize(("body", "written"), WRITES, ids=[body for body, _ in WRITES])
def test_what_a_kernel_may_write_to(body: str, written: set[str]) -> None:
    pointers = {"x_ptr", "y_ptr", "out_ptr"}
    assert may_write(_kernel(body)) & pointers == written


@pytest.mark.parametrize(
    "body",
    [
        "unknown(out_ptr)",
        "BLOCK(out_ptr)",
        "kernels.put(out_ptr, 1)",
        "tl.store(tl.load(x_ptr).to(tl.pointer_type(tl.int8)), 1)",
        "put(*(out_ptr, 1))",
        "kernel(x_ptr, y_ptr, out_ptr, size, BLOCK)",
        "tl.device_print('i', i)",
    ],
)
def test_what_a_kernel_writes_to_is_not_guessed(body: str) -> None:
    with pytest.raises(Refused):
        may_write(_kernel(body))


HELPER = """
import functools

import torch
import triton
import triton.language as tl
{head}


def grid(size, meta):
    return (triton.cdiv(size, meta["BLOCK"]),)


def work(x):
    out = torch.empty_like(x)
    double[functools.partial(grid, 4)](x, out, 4, BLOCK=4)
    return out


def f(x):
    return work(x)
"""
DOUBLE = """

@triton.jit
def double(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))
"""


def _helper(head: str, code: str = "GB0216", **others: str) -> list[Rewrite | Advice]:
    """What is proposed for a helper whose kernel may stand in other files."""
    source = HELPER.format(head=head).lstrip("\n")
    facts = {"x": tensor(4), "out": tensor(4)}
    at = "double[functools.partial(grid, 4)]"
    site = example_site(NearMiss(source, at=at, why="", facts=facts), code)
    start = "import triton\nimport triton.language as tl\n"
    sources = {site.path: site.source, **{f"{n}.py": start + t for n, t in others.items()}}
    again = Site(
        site.path, site.source, site.graph_break, StatedFacts(facts), sources=sources,
        entry=site.path,
    )  # fmt: skip
    return list(TritonOp().propose(again))


def test_a_kernel_of_another_file() -> None:
    (rewrite,) = _helper("from kernels import double", kernels=DOUBLE, other="")
    assert isinstance(rewrite, Rewrite) and list(rewrite.edits) == ["example.py"]
    assert "wrap_triton(double)[" in rewrite.edits["example.py"]


@pytest.mark.parametrize(
    ("head", "others"),
    [
        ("from kernels import double", {}),
        ("from kernels import double", {"kernels": DOUBLE.replace("@triton.jit", "@other")}),
        ("from kernels import double", {"other": DOUBLE}),
        ("from kernels import double", {"kernels": DOUBLE, "other": DOUBLE}),
        ("from kernels import twice as double", {"kernels": DOUBLE}),
        (f"{DOUBLE}\n\ndouble = print(double)", {}),
    ],
)
def test_another_kernel_of_that_name_is_not_taken_for_it(head: str, others: dict[str, str]) -> None:
    assert not any(isinstance(item, Rewrite) for item in _helper(head, **others))


def test_a_kernel_below_its_helper_would_be_unknown_to_caches() -> None:
    source = HELPER.format(head="").lstrip("\n") + DOUBLE
    facts = {"x": tensor(4), "out": tensor(4)}
    case = NearMiss(source, at="double[functools.partial(grid, 4)]", why="", facts=facts)
    (advice,) = TritonOp().propose(example_site(case, "GB0216"))
    assert isinstance(advice, Advice) and "below" in advice.text


def test_what_no_compiler_takes_apart_is_advised_to_be_opaque() -> None:
    (advice,) = _helper(DOUBLE, code="GB0361")
    assert isinstance(advice, Advice) and "custom_op" in advice.text


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
    assert not list(TritonOp().propose(again))
