"""Examples and near misses of `triton_op`."""

from __future__ import annotations

import dataclasses

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_KERNEL = '''import functools

import torch
import triton
import triton.language as tl

LIMIT = 16
SIZES = [16]


def grid(size, meta):
    return (triton.cdiv(size, meta["BLOCK"]),)


@triton.jit
def double(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < size
    tl.store(out_ptr + place, tl.load(x_ptr + place, mask=mask) * 2, mask=mask)


'''
_IMPORT = "import triton.language as tl\n"
_WRAP = _IMPORT + "from torch.library import wrap_triton\n"
_LAUNCH = "double[functools.partial(grid, n)](x, out, n, BLOCK=LIMIT)"
_AT = "double[functools.partial(grid, n)]"
_X = dataclasses.replace(tensor(3, 4), storage=1)
_OUT = dataclasses.replace(tensor(3, 4), storage=2)
_FACTS = {"x": _X, "out": _OUT, "n": scalar(12)}
_BODY = f"n = x.numel()\nout = torch.empty_like(x)\n{_LAUNCH}\nreturn out"
_LEARNS = dataclasses.replace(_X, requires_grad=True)


def _source(body: str, head: str, kernel: str = _KERNEL, after: str = "") -> str:
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
    return f"{kernel}{head}\n{lines}{after}\n\ndef f(x, out, n):\n    return work(x)\n"


def _example(
    title: str, head: str, new: str, body: str = _BODY, after: str = "", **facts: Fact
) -> Example:
    wrapped = body.replace("double[", "wrap_triton(double)[")
    kernel = _KERNEL.replace(_IMPORT, "").replace("import torch\n", "import torch\n")
    assert kernel
    return Example(
        _source(body, head),
        _source(wrapped, new, _KERNEL.replace("import torch\n", "import torch\n"), after),
        at=_AT,
        facts=_FACTS | facts,
        title=title,
    )


EXAMPLES = (
    _example(
        "a grid that is no function",
        "def work(x):",
        '@torch.library.triton_op("example::work", mutates_args=())\n'
        "def work(x: torch.Tensor) -> torch.Tensor:",
    ),
)
NEAR_MISSES: tuple[NearMiss, ...] = ()
