"""Examples and near misses of wrap-piece."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_HEAD = """
import zlib

import torch


"""


def _helper(body: str, before: str = "") -> str:
    return f"""{_HEAD}{before}def buckets(ids, count):
    {body}


@torch.compile
def f(x, ids):
    return x + buckets(ids, 7)
"""


_LOOP = """found = []
    for i in ids.tolist():
        found.append(zlib.crc32(str(i).encode()) % count)
    return torch.tensor(found)"""
_OPERATOR = """@torch.library.custom_op("example::buckets_op", mutates_args=())
def buckets_op(ids: torch.Tensor, count: int) -> torch.Tensor:
    found = []
    for i in ids.tolist():
        found.append(zlib.crc32(str(i).encode()) % count)
    return torch.tensor(found)


buckets_op.register_fake(lambda ids, count: torch.empty(ids.shape, dtype=torch.int64))


"""
_AT = "zlib.crc32(str(i).encode())"
_FACTS = {
    "ids": tensor(5, dtype="torch.int64"),
    "count": scalar(7),
    "ids.tolist()": Fact("list", "list", items=(scalar(1),)),
    "found": Fact("list", "list", items=()),
    "torch.tensor(found)": tensor(5, dtype="torch.int64"),
    "i": scalar(1),
    "zlib.crc32": Fact("function", "function", qualname="zlib.crc32"),
}


def _near_miss(body: str, why: str, facts: dict[str, Fact] | None = None) -> NearMiss:
    return NearMiss(_helper(body), at=_AT, why=why, facts=_FACTS | (facts or {}))


EXAMPLES = (
    Example(
        _helper(_LOOP),
        _helper("return buckets_op(ids, count)", _OPERATOR),
        at=_AT,
        facts=_FACTS,
        title="a hash of every id",
    ),
)
NEAR_MISSES = (
    _near_miss(
        _LOOP,
        "a gradient goes through it",
        {"torch.tensor(found)": tensor(5, requires_grad=True)},
    ),
    _near_miss(
        _LOOP.replace("return torch.tensor(found)", "return found"),
        "gives a list",
    ),
    _near_miss(
        _LOOP.replace("found = []", "global SEEN; found = []; SEEN = ids"), "binds a global name"
    ),
    _near_miss(_LOOP, "an object goes in", {"count": Fact("object", "Config", in_project=True)}),
)
