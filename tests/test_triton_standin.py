"""Helpers that launch triton kernels, where triton's interpreter stands in for a device.

Compiled kernels need one.  Here kernels stay what ``triton.jit`` makes, and Dynamo takes them for
such, but to run one is to interpret its Python on the CPU.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from planted import Gbfix, Wrong, assert_caught, run_planted

from gbfix.schema import Patch, Report, Safety

pytest.importorskip("triton")

STAND_IN = """
import torch
import torch.utils._triton
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction


@torch.compiler.disable
def run(self, *args, grid, warmup=False, **kwargs):
    InterpretedFunction(self.fn)[grid](*args, **kwargs)


JITFunction.run = run
torch.utils._triton.has_triton = lambda: True
"""
PROGRAM = """
import functools

import stand_in
import torch
import triton
import triton.language as tl

LIMIT = 16


def grid(size, meta):
    return (triton.cdiv(size, meta["BLOCK"]),)


class Grid:
    def __init__(self, size):
        self.size = size

    def __call__(self, meta):
        return (triton.cdiv(self.size, meta["BLOCK"]),)


def warps(size):
    return 8 if size > 4096 else 4


{above}@triton.jit
def scaled(x_ptr, out_ptr, size, by, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < size
    tl.store(out_ptr + place, tl.load(x_ptr + place, mask=mask) * by, mask=mask)


{helper}


@torch.compile(backend="aot_eager")
def f(x):
    y = x + 1
{body}
    return y * 3


{calls}
"""
HELPER = """
def work(x, by=2.0):
    x = x.contiguous()
    n = x.numel()
    out = torch.empty_like(x)
    scaled[{grid}](x, out, n, by, BLOCK=16{more})
    return out
"""
ON_DEVICE = HELPER.format(grid="(triton.cdiv(n, 16),)", more="").replace(
    "    scaled", "    with torch.cuda.device_of(x):\n        scaled"
)
IN_PLACE = """
def work(x, out):
    n = x.numel()
    with torch.cuda.device_of(x):
        scaled[functools.partial(grid, n)](x, out, n, 2, BLOCK=16)
"""
TWICE = """
def work(x, size=None):
    n = x.numel()
    first, second = torch.empty_like(x), x.new_zeros(x.shape)
    with torch.cuda.device_of(x):
        scaled[functools.partial(grid, n)](x, first, n, 2, BLOCK=LIMIT)
    if size is not None:
        scaled[lambda meta: (triton.cdiv(size.numel(), 16),)](size, second, n, 3, BLOCK=16)
    return first, second
"""
CALLS = "f(torch.randn(3, 11))\nf(torch.randn(4, 11))"


@pytest.fixture(autouse=True)
def _stand_in(tmp_path: Path) -> None:
    (tmp_path / "stand_in.py").write_text(STAND_IN.lstrip("\n"))


def _program(helper: str, body: str, calls: str = CALLS, above: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines()).rstrip("\n")
    return PROGRAM.format(helper=helper.strip("\n"), body=lines, calls=calls, above=above)


def _run(run: Gbfix, *program: str, **more: str) -> Report:
    return run(_program(*program, **more), backends=("eager", "aot_eager"), unsafe_fixes=True)


# The kernel's launch in itself would be traced; what is around it would not.
CASES = [
    ("an object", HELPER.format(grid="Grid(n)", more=", num_warps=warps(n)"), "y = work(y)"),
    ("a gradient that is asked for", ON_DEVICE, "y = work(y, 3.0) + y"),
    ("in place", IN_PLACE, "z = torch.zeros_like(y)\nwork(y, z)\ny = y + z"),
    ("two results", TWICE, "y, z = work(y, y)\ny = y + z"),
]


@pytest.mark.parametrize(("name", "helper", "body"), CASES, ids=[case[0] for case in CASES])
def test_a_helper_becomes_an_operator(gbfix_run: Gbfix, name: str, helper: str, body: str) -> None:
    calls = CALLS
    if "gradient" in name:
        calls = "f(torch.randn(3, 11, requires_grad=True)).sum().backward()"
    patch = _patch(_run(gbfix_run, helper, body, calls), "triton-op")
    assert patch.safety is Safety.UNSAFE
    assert "wrap_triton(scaled)[" in patch.diff
    written = '("out",)' if name == "in place" else "()"
    assert f'@torch.library.triton_op("program::work", mutates_args={written})' in patch.diff


GRIDS = [
    HELPER.format(grid="functools.partial(grid, n)", more=""),
    HELPER.format(grid="blocks", more="").replace("    scaled", "    blocks = Grid(n)\n    scaled"),
]


@pytest.mark.parametrize("helper", GRIDS, ids=["partial", "object"])
def test_a_grid_becomes_a_function(gbfix_run: Gbfix, helper: str) -> None:
    patch = _patch(_run(gbfix_run, helper, "y = work(y)"), "grid-to-lambda")
    assert patch.safety is Safety.SAFE
    assert "scaled[lambda meta: " in patch.diff


def _patch(report: Report, codemod: str) -> Patch:
    """The one patch, which passed without caveats."""
    patches = report.patches + report.unsafe_patches
    tried = [(attempt.codemod, attempt.reason) for item in report.breaks
             for attempt in item.attempts]  # fmt: skip
    assert [patch.codemods for patch in patches] == [(codemod,)], (tried, report.errors)
    (patch,) = patches
    assert not [text for rung in patch.verdict.rungs for text in rung.caveats]
    return patch


def test_a_kernel_that_is_tuned(gbfix_run: Gbfix) -> None:
    tuned = "@triton.autotune([triton.Config({'BLOCK': 16})], key=['size'])\n"
    helper = ON_DEVICE.replace(", BLOCK=16", "")
    _patch(_run(gbfix_run, helper, "y = work(y)", above=tuned), "triton-op")


def test_a_launch_that_is_traced_is_left_alone(gbfix_run: Gbfix) -> None:
    plain = HELPER.format(grid='lambda meta: (triton.cdiv(n, meta["BLOCK"]),)', more="")
    report = _run(gbfix_run, plain, "y = work(y)")
    assert not report.breaks and not report.errors


def test_torch_finds_the_kernels_of_the_operator(tmp_path: Path) -> None:
    """Else its caches would give back what was compiled of a kernel before it was edited."""
    torch = pytest.importorskip("torch")
    from torch._library.triton import get_inner_triton_kernels

    kernel = (
        "import torch\nimport triton\nfrom torch.library import wrap_triton\n\n\n"
        "@triton.jit\ndef none(x):\n    pass\n\n\n"
    )
    texts = {"by_name": "wrap_triton(none)", "by_chain": "torch.library.wrap_triton(none)"}
    found = {}
    for name, text in texts.items():
        path = tmp_path / f"{name}.py"
        path.write_text(f"{kernel}def work(x):\n    {text}[(1,)](x)\n")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None and torch
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[name] = len(get_inner_triton_kernels(module.work))
    assert found == {"by_name": 1, "by_chain": 0}, "the codemod may write the chain"


OPERATOR = """
@torch.library.triton_op("planted::work", mutates_args=())
def work({signature}) -> {result}:
{body}
"""
BREAK = "torch._dynamo.graph_break()\n"
INSIDE = """    out = torch.empty_like(x)
    torch.library.wrap_triton(scaled)[(4,)](x, out, x.numel(), 2, BLOCK=16)
    return out"""
PLAIN = (
    "def plain(x, out, by=2):\n    scaled[(4,)](x, out, x.numel(), by, BLOCK=16)\n    return out\n"
)
EMPTY = "y = plain(y, torch.empty_like(y))"
WRONG = [
    Wrong(
        "a change that is not declared",
        _program(
            PLAIN
            + OPERATOR.format(
                signature="x: torch.Tensor, out: torch.Tensor",
                result="None",
                body="    torch.library.wrap_triton(scaled)[(4,)](x, out, x.numel(), 2, BLOCK=16)",
            ),
            BREAK + "z = torch.zeros_like(y)\nplain(y, z)\ny = y + z",
        ),
        "    torch._dynamo.graph_break()\n    z = torch.zeros_like(y)\n    plain(y, z)",
        "    z = torch.zeros_like(y)\n    work(y, z)",
        "outputs",
        "changes `out`, not among `mutates_args`",
    ),
    Wrong(
        "an operator that torch expects a formula of",
        _program(
            PLAIN
            + OPERATOR.format(signature="x: torch.Tensor", result="torch.Tensor", body=INSIDE),
            BREAK + EMPTY + " + y",
            "f(torch.randn(3, 11, requires_grad=True)).sum().backward()",
        ),
        f"    torch._dynamo.graph_break()\n    {EMPTY}",
        "    y = work(y)",
        "outputs",
        "no autograd formula",
    ),
    Wrong(
        "a result that is an argument",
        _program(
            PLAIN
            + OPERATOR.format(
                signature="x: torch.Tensor",
                result="torch.Tensor",
                body=INSIDE.replace("return out", "return x"),
            ),
            BREAK + "plain(y, torch.empty_like(y))",
        ),
        "    torch._dynamo.graph_break()\n    plain(y, torch.empty_like(y))",
        "    y = work(y)",
        "outputs",
        "alias",
    ),
]


@pytest.mark.parametrize("case", WRONG, ids=[case.name for case in WRONG])
def test_the_ladder_catches(case: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))
