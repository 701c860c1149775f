"""Examples and near misses of `triton_op`."""

from __future__ import annotations

import dataclasses

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_KERNEL = """import functools

import torch
import triton
import triton.language as tl{imports}

LIMIT = 16
SIZES = [16]


def grid(size, meta):
    return (triton.cdiv(size, meta["BLOCK"]),)


@triton.jit
def double(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < size
    tl.store(out_ptr + place, tl.load(x_ptr + place, mask=mask) * 2, mask=mask)


"""
_LAUNCH = "double[functools.partial(grid, n)](x, out, n, BLOCK=LIMIT)"
_AT = "double[functools.partial(grid, n)]"
_X = dataclasses.replace(tensor(3, 4), storage=1)
_OUT = dataclasses.replace(tensor(3, 4), storage=2)
_OTHER = dataclasses.replace(tensor(3, 4), storage=3)
_LEARNS = dataclasses.replace(_X, requires_grad=True)
_FACTS = {"x": _X, "out": _OUT, "n": scalar(12)}
_BODY = f"n = x.numel()\nout = torch.empty_like(x)\n{_LAUNCH}\nreturn out"
_NO_GRADIENT = """

work.register_autograd(
    lambda ctx, *gradients: {nones},
    setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable({output}),
)
"""


def _source(head: str, body: str, kernel: str, after: str = "") -> str:
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
    return f"{kernel}{head}\n{lines}{after}\n\ndef f(x, out, n):\n    return work(x)\n"


def _example(
    title: str,
    head: str,
    new: str,
    body: str = _BODY,
    after: str = "",
    *,
    writes: str = "()",
    facts: dict[str, Fact] | None = None,
) -> Example:
    operator = f'@torch.library.triton_op("example::work", mutates_args={writes})\n'
    imports = "\nfrom torch.library import wrap_triton"
    return Example(
        _source(head, body, _KERNEL.format(imports="")),
        _source(
            operator + new,
            body.replace("double[", "wrap_triton(double)["),
            _KERNEL.format(imports=imports),
            after,
        ),
        at=_AT,
        facts=_FACTS | (facts or {}),
        title=title,
    )


EXAMPLES = (
    _example(
        "a grid that is no function",
        "def work(x):",
        "def work(x: torch.Tensor) -> torch.Tensor:",
        after=_NO_GRADIENT.format(nones="None", output="output"),
    ),
    _example(
        "arguments that are given by name",
        "def work(x, *, limit=2):",
        "def work(x: torch.Tensor, *, limit: torch.types.Number = 2) -> torch.Tensor:",
        after=_NO_GRADIENT.format(nones="None", output="output").replace(
            "inputs,", "inputs, keyword_only_inputs,"
        ),
        facts={"limit": scalar(2)},
    ),
    _example(
        "an argument that a kernel writes to",
        "def work(x, out, n=12):",
        "def work(x: torch.Tensor, out: torch.Tensor, n: torch.types.Number = 12) -> None:",
        f"with torch.cuda.device_of(x):\n    {_LAUNCH}",
        writes='("out",)',
    ),
    _example(
        "several results, and a tensor that may be None",
        "def work(x, y=None):",
        "def work(x: torch.Tensor, y: torch.Tensor | None = None)"
        " -> tuple[torch.Tensor, torch.Tensor]:",
        "x = x.contiguous()\nn = x.numel()\nout = torch.empty_like(x)\n"
        "more = x.new_zeros((n,))\n"
        f"{_LAUNCH}\n"
        "if y is not None:\n"
        "    grids = lambda meta: (triton.cdiv(y.numel(), meta['BLOCK']),)\n"
        "    double[grids](y, more, y.numel(), BLOCK=LIMIT)\n"
        "return out, more.view(x.shape)",
        _NO_GRADIENT.format(nones="(None, None)", output="*output"),
        facts={
            "y": dataclasses.replace(_OTHER, storage=4),
            "out, more.view(x.shape)": Fact("tuple", "tuple", items=(_OUT, _OTHER)),
        },
    ),
)


def _near_miss(
    why: str,
    old: str = "",
    new: str = "",
    facts: dict[str, Fact] | None = None,
    *,
    head: str = "def work(x):",
    kernel: tuple[str, str] = ("", ""),
    at: str = _AT,
) -> NearMiss:
    """The first example with one text in its body, or its kernel, replaced by another."""
    assert old in _BODY and kernel[0] in _KERNEL, why
    body = _BODY.replace(old, new) if old else _BODY + new
    text = _KERNEL.format(imports="")
    text = text.replace(kernel[0], kernel[1]) if kernel[0] else text
    return NearMiss(_source(head, body, text), at=at, why=why, facts=_FACTS | (facts or {}))


_RETURN = "return out"
_STORE = "tl.store(out_ptr + place, tl.load(x_ptr + place, mask=mask) * 2, mask=mask)"

NEAR_MISSES = (
    _near_miss("returns its argument", _RETURN, "return x"),
    _near_miss("returns a view of its argument", _RETURN, "return x.view(-1)", {"x.view(-1)": _X}),
    _near_miss(
        "may return its argument",
        "out = torch.empty_like(x)",
        "out = torch.empty_like(x)\nif n > 8:\n    out = x.contiguous()",
    ),
    _near_miss(
        "gives a tensor twice",
        _RETURN,
        "return out, out",
        {"out, out": Fact("tuple", "tuple", items=(_OUT, _OTHER))},
    ),
    _near_miss(
        "gives a tensor and a view of it",
        _RETURN,
        "return out, out.t()",
        {"out, out.t()": Fact("tuple", "tuple", items=(_OUT, _OTHER))},
    ),
    _near_miss("shared memory when it ran", "", "", {"out": dataclasses.replace(_OUT, storage=1)}),
    _near_miss(
        "a dictionary", _RETURN, 'return {"out": out}', {'{"out": out}': Fact("dict", "dict")}
    ),
    _near_miss("a number", _RETURN, "return n"),
    _near_miss(
        "a tuple of one",
        _RETURN,
        "return (out,)",
        {"out,": Fact("tuple", "tuple", items=(_OUT,))},
    ),
    _near_miss("a result that was not seen", _RETURN, "return out.float()"),
    _near_miss(
        "a result with a gradient",
        "",
        "",
        {"x": _LEARNS, "out": dataclasses.replace(_OUT, requires_grad=True)},
    ),
    _near_miss(
        "a gradient that the recorded run did not ask for",
        _RETURN,
        "return out * x",
        {"x": _LEARNS, "out * x": _OTHER},
    ),
    _near_miss(
        "a change in place that has a gradient",
        _RETURN,
        "out.mul_(x)\nreturn out",
        {"x": _LEARNS},
    ),
    _near_miss(
        "changes what asks for a gradient",
        "(x, out, n,",
        "(out, x, n,",
        {"x": _LEARNS},
    ),
    _near_miss(
        "changes one of two names of the same memory",
        "return out",
        "n += 1",
        {"y": dataclasses.replace(_OUT, storage=1)},
        head="def work(x, y):",
        kernel=("out_ptr + place, tl", "x_ptr + place, tl"),
    ),
    _near_miss("any number of arguments", head="def work(x, *more):"),
    _near_miss("named arguments of any kind", head="def work(x, **more):"),
    _near_miss("decorated", head="@torch.no_grad()\ndef work(x):"),
    _near_miss("a default that is no constant", head="def work(x, more=SIZES):"),
    _near_miss("an object", head="def work(x, config):", facts={"config": Fact("object", "Box")}),
    _near_miss("a method", head="class A:\n  def work(self, x):"),
    _near_miss("the region itself", head="def f(x):"),
    _near_miss("returns at two places", "out = torch", "if n < 2:\n    return x\nout = torch"),
    _near_miss("a global that is changed", "BLOCK=LIMIT", "BLOCK=SIZES[0]"),
    _near_miss(
        "a global that is bound again",
        "BLOCK=LIMIT",
        "BLOCK=LIMIT",
        kernel=("SIZES = [16]", "LIMIT = 32"),
    ),
    _near_miss(
        "a global that a function binds",
        kernel=(
            "SIZES = [16]\n",
            "SIZES = [16]\n\n\ndef set_it():\n    global LIMIT\n    LIMIT = 8\n",
        ),
    ),
    _near_miss("changes a global", "n = x.numel()", "n = x.numel()\nSIZES.append(n)"),
    _near_miss("a value of a tensor", "n = x.numel()", "n = int(x.sum().item())"),
    _near_miss("an address", "n = x.numel()", "n = x.numel()\nassert x.data_ptr() % 16 == 0"),
    _near_miss("prints", "n = x.numel()", "n = x.numel()\nprint(n)"),
    _near_miss("asks for gradients", "n = x.numel()", "n = x.numel() if x.requires_grad else 0"),
    _near_miss("draws numbers", "torch.empty_like", "torch.rand_like"),
    _near_miss("a matrix product", "torch.empty_like(x)", "x @ x"),
    _near_miss("a setting", "n = x.numel()", "n = int(torch.backends.cudnn.benchmark)"),
    _near_miss("hands a tensor on", "n = x.numel()", "n = f(x, x, 1)"),
    _near_miss(
        "another context", "out = torch", "with torch.enable_grad():\n    n = 1\nout = torch"
    ),
    _near_miss(
        "a grid that prints", kernel=("    return (triton", "    print(meta)\n    return (triton")
    ),
    _near_miss(
        "a grid that reads what changes", kernel=("(size, meta[", "(size + SIZES[0], meta[")
    ),
    _near_miss(
        "a grid under another name that prints",
        _LAUNCH,
        "blocks = grid\ndouble[blocks](x, out, n, BLOCK=LIMIT)",
        kernel=("    return (triton", "    print(meta)\n    return (triton"),
        at="double[blocks]",
    ),
    _near_miss(
        "what a class holds",
        "functools.partial(grid, n)",
        "Blocks(n)",
        kernel=(
            "SIZES = [16]\n",
            "SIZES = [16]\n\n\nclass Blocks:\n    def __init__(self, n):\n        self.n = n\n\n"
            "    def __call__(self, meta):\n        return (self.n // self.size,)\n",
        ),
        at="double[Blocks(n)]",
    ),
    _near_miss(
        "a parameter of a lambda elsewhere has a global's name",
        _LAUNCH,
        "double[lambda SIZES: (1,)](x, out, n, BLOCK=SIZES[0])",
        at="double[lambda SIZES: (1,)]",
    ),
    _near_miss("what a launch gives is used", "double[", "seen = double["),
    _near_miss("the kernel is handed on", "n = x.numel()", "n = x.numel()\nother = double"),
    _near_miss("starred arguments", "(x, out, n, BLOCK", "(*(x, out), n, BLOCK"),
    _near_miss(
        "a kernel with settings alone",
        kernel=("@triton.jit", "@triton.heuristics({})\n@triton.jit"),
    ),
    _near_miss(
        "a kernel under something else", kernel=("@triton.jit", "@functools.cache\n@triton.jit")
    ),
    _near_miss("a kernel that is bound twice", kernel=("LIMIT = 16", "LIMIT = 16\ndouble = None")),
    _near_miss("a kernel that calls what is not known", kernel=(_STORE, "grid(x_ptr, out_ptr)")),
    _near_miss("a kernel that calls what it is given", kernel=(_STORE, "BLOCK(out_ptr)")),
    _near_miss(
        "a kernel with code of the machine",
        kernel=(_STORE, 'tl.inline_asm_elementwise("st", "", [out_ptr], tl.int32, True, 1)'),
    ),
    _near_miss(
        "a kernel that loads pointers",
        kernel=(_STORE, "tl.store(tl.load(x_ptr).to(tl.pointer_type(tl.float32)), 1.0)"),
    ),
    _near_miss("a kernel that prints", kernel=(_STORE, 'tl.device_print("x", place)')),
    _near_miss(
        "a kernel that writes to nothing, and no result",
        _RETURN,
        "",
        kernel=(_STORE, "tl.load(x_ptr)"),
    ),
    _near_miss("`wrap_triton` is another", kernel=("LIMIT = 16", "LIMIT = 16\nwrap_triton = None")),
    _near_miss("no launch", _LAUNCH, "out.zero_()", at="out.zero_()"),
)
