"""Examples and near misses of `helper_to_op`."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_HEAD = """import random

import numpy as np
import torch

SEEN = []


"""
_TAIL = """


def f(x, index, n):
    return work(x, index, n)
"""
_AT = "np.add.at(x.numpy(), index.numpy(), n)"


def _source(body: str, head: str = "def work(x, index, n):", after: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{_HEAD}{head}\n{lines}{after}".rstrip("\n") + _TAIL


_FACTS = {"x": tensor(3), "index": tensor(2, dtype="torch.int64"), "n": scalar(1.0)}


def _example(
    title: str, body: str, head: str, new_head: str, after: str, at: str = _AT, **facts: Fact
) -> Example:
    old = "def work" + head
    decorator = new_head.partition("\n")[0]
    new = f"{decorator}\ndef work{new_head.partition(chr(10))[2]}"
    return Example(
        _source(body, old),
        _source(body, new, f"\n\n{after}"),
        at=at,
        facts=_FACTS | facts,
        title=title,
    )


EXAMPLES = (
    _example(
        "an argument that is written to",
        _AT,
        "(x, index, n):",
        '@torch.library.custom_op("example::work", mutates_args=("x",))\n'
        "(x: torch.Tensor, index: torch.Tensor, n: torch.types.Number) -> None:",
        "work.register_fake(lambda x, index, n: None)\n",
    ),
    _example(
        "a tensor that may be None",
        "a = np.unwrap(x.numpy())\nif n is not None:\n    a = a * n.numpy()\n"
        "return torch.from_numpy(a)",
        "(x, index, n=None):",
        '@torch.library.custom_op("example::work", mutates_args=())\n'
        "(x: torch.Tensor, index: torch.Tensor, n: torch.Tensor | None = None) -> torch.Tensor:",
        "work.register_fake(lambda x, index, n=None: x.new_empty(x.shape))\n",
        at="np.unwrap(x.numpy())",
        n=scalar(None),
        **{
            "torch.from_numpy(a)": tensor(3),
            "a * n.numpy()": Fact("ndarray", "numpy.ndarray", shape=(3,)),
        },
    ),
    _example(
        "a size that the data decides",
        "kept = []\nfor i in index.tolist():\n    if i > n:\n        kept.append(i)\n"
        "return torch.tensor(kept)",
        "(x, index, n):",
        '@torch.library.custom_op("example::work", mutates_args=())\n'
        "(x: torch.Tensor, index: torch.Tensor, n: torch.types.Number) -> torch.Tensor:",
        "work.register_fake(\n"
        "    lambda x, index, n: index.new_empty((torch.library.get_ctx().new_dynamic_size(),))\n"
        ")\n",
        at="index.tolist()",
        **{"torch.tensor(kept)": tensor(1, dtype="torch.int64")},
    ),
)


def _near_miss(
    body: str,
    why: str,
    facts: dict[str, Fact] | None = None,
    *,
    head: str = "def work(x, index, n):",
) -> NearMiss:
    source = _source(f"{_AT}\n{body}", head)
    return NearMiss(source, at=_AT, why=why, facts=_FACTS | (facts or {}))


NEAR_MISSES = (
    _near_miss("", "changes what a gradient is asked of", {"x": tensor(3, requires_grad=True)}),
    _near_miss("print(n)", "prints"),
    _near_miss("n = n + random.random()", "binds a parameter anew"),
    _near_miss("m = random.random()", "draws a number"),
    _near_miss("m = np.random.rand()", "draws a number"),
    _near_miss("m = torch.rand(3)", "draws a number"),
    _near_miss("m = torch.nn.functional.dropout(x)", "draws a number"),
    _near_miss("SEEN.append(1)", "changes a global"),
    _near_miss("f.seen = n", "sets an attribute"),
    _near_miss("np.save('x.npy', x.numpy())", "writes a file"),
    _near_miss("m = f(x, index, n)", "calls what nobody knows"),
    _near_miss("m = [lambda: x]", "makes a closure"),
    _near_miss("with torch.no_grad():\n    m = x + 1", "enters a context"),
    _near_miss("if n > 1:\n    return x\nreturn x + 1", "returns at several places"),
    _near_miss("return x.sum().item()", "gives a number", {"x.sum().item()": scalar(1.0)}),
    _near_miss("return [x]", "gives a list", {"[x]": Fact("list", "list", items=(tensor(3),))}),
    _near_miss("return x + 1", "was never seen to return"),
    _near_miss("", "an object", {"n": Fact("object", "Config")}),
    _near_miss("if n is None:\n    m = 0", "a number that may be None"),
    _near_miss("", "any number of arguments", head="def work(x, index, n, *more):"),
    _near_miss("", "a default that is no constant", head="def work(x, index, n=SEEN):"),
    _near_miss("", "decorated", head="@torch.no_grad()\ndef work(x, index, n):"),
    NearMiss(
        _source("index.append(x)\nnp.add.at(x.numpy(), 0, n)"),
        at="np.add.at(x.numpy(), 0, n)",
        why="a list that is changed",
        facts=_FACTS | {"index": Fact("list", "list", items=(tensor(3),))},
    ),
    NearMiss(
        _source("y = torch.from_numpy(np.unwrap(x.detach().numpy()))\nreturn y * x"),
        at="np.unwrap(x.detach().numpy())",
        why="a gradient that goes past numpy",
        facts=_FACTS | {"x": tensor(3, requires_grad=True), "y * x": tensor(3, requires_grad=True)},
    ),
    NearMiss(
        _source("y = x.detach() * n\nm = y.tolist()\nreturn y"),
        at="y.tolist()",
        why="nothing shows where the gradient goes",
        facts=_FACTS | {"x": tensor(3, requires_grad=True), "y": tensor(3)},
    ),
    NearMiss(
        _source(_AT).replace("return work(x", "return map(work, x"),
        at=_AT,
        why="more than called",
        facts=_FACTS,
    ),
    NearMiss(_source(_AT, "def f(x, index, n):"), at=_AT, why="the region itself", facts=_FACTS),
    NearMiss(
        "import numpy as np\n\n\nclass A:\n    def work(self, x):\n"
        "        np.add.at(x.numpy(), 0, 1)\n",
        at="np.add.at(x.numpy(), 0, 1)",
        why="a method",
        facts=_FACTS,
    ),
)
