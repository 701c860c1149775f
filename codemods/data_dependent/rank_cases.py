"""Examples and near misses of ``rank-to-mask``."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor

_FACTS = {
    "m": tensor(4, 4),
    "u": tensor(4, 4),
    "s": tensor(4),
    "vh": tensor(4, 4),
    "good": tensor(4, dtype="torch.bool"),
    "rank": tensor(dtype="torch.int64"),
    "x": tensor(4),
    "whole": tensor(4),
}
_HEAD = """
import torch


def f(m, x, limit):
    u, s, vh = torch.linalg.svd(m)
    good = s > limit
"""


def _source(lines: str) -> str:
    return _HEAD + "".join(f"    {line}\n" for line in lines.strip().splitlines())


EXAMPLES = (
    Example(
        _source("rank = good.sum()\nreturn (u[:, :rank] * s[:rank]) @ vh[:rank]"),
        _source(
            "rank = good.sum()\n"
            "beyond = torch.arange(u.size(-1), device=u.device) >= rank\n"
            "return (u.masked_fill(beyond, 0) * s.masked_fill(beyond, 0))"
            " @ vh.masked_fill(beyond[:, None], 0)"
        ),
        at="(u[:, :rank] * s[:rank]) @ vh[:rank]",
        facts=_FACTS,
        title="a product of as many columns as count",
    ),
    Example(
        _source(
            "rank = int(good.sum())\n"
            "u = u[..., :rank]\n"
            "s = s[:rank].sqrt()\n"
            "return (u * s[None, :]) @ (u * s).mT"
        ),
        _source(
            "rank = good.sum()\n"
            "beyond = torch.arange(u.size(-1), device=u.device) >= rank\n"
            "u = u.masked_fill(beyond, 0)\n"
            "s = s.masked_fill(beyond, 1).sqrt()\n"
            "return (u * s[None, :]) @ (u * s).mT"
        ),
        at="u[..., :rank]",
        facts={**_FACTS, "rank": scalar(3, constant=False)},
        title="a root, with ones where something else is zero",
    ),
    Example(
        _source(
            "rank = good.sum()\n"
            "if rank < s.size(-1):\n"
            "    s = s[:rank]\n"
            "    u = u[:, :rank]\n"
            "    if x[0] > 0:\n"
            "        good = good[:rank]\n"
            "if x[0] > 0:\n"
            "    s = s.where(good, 0)\n"
            "return u @ torch.diag(s) @ u.transpose(0, 1)"
        ),
        _source(
            "rank = good.sum()\n"
            "beyond = torch.arange(s.size(-1), device=s.device) >= rank\n"
            "s = s.masked_fill(beyond, 0)\n"
            "u = u.masked_fill(beyond, 0)\n"
            "if x[0] > 0:\n"
            "    s = s.where(good, 0)\n"
            "return u @ torch.diag(s) @ u.transpose(0, 1)"
        ),
        at="rank < s.size(-1)",
        facts=_FACTS,
        title="only where there is something to cut",
    ),
)

NEAR_MISSES = tuple(
    NearMiss(_source(f"{lines}\n{last}"), at=at, why=why, facts=_FACTS)
    for lines, last, at, why in (
        ("rank = good.sum()", "return s[:rank]", "s[:rank]", "the result is as long as the cut"),
        (
            "rank = good.sum() - 1",
            "return (s[:rank] * s[:rank]).sum()",
            "(s[:rank] * s[:rank]).sum()",
            "the number may be negative",
        ),
        ("rank = good.sum()", "return s[:rank].mean()", "s[:rank].mean()", "a mean counts them"),
        ("rank = good.sum()", "return s[:rank].max()", "s[:rank].max()", "zero may be the largest"),
        (
            "rank = good.sum()",
            "return s[:rank].exp().sum()",
            "s[:rank].exp().sum()",
            "the exponential of zero is one",
        ),
        (
            "rank = good.sum()",
            "return s[:rank].sqrt().sum()",
            "s[:rank].sqrt().sum()",
            "a root has no derivative at zero, and nothing else is zero",
        ),
        (
            "rank = good.sum()",
            "return (s[:rank] + 1).sum()",
            "(s[:rank] + 1).sum()",
            "one is added to what is cut off",
        ),
        (
            "rank = good.sum()\nif rank > 2:\n    s = s[:rank]",
            "return s.sum()",
            "rank > 2",
            "the test asks for something else",
        ),
        (
            "rank = good.sum()\nshow = lambda: s",
            "return s[:rank].sum() + show().sum()",
            "s[:rank].sum() + show().sum()",
            "a nested function reads it",
        ),
        (
            "rank = good.sum()\nwhole = s\ns = s[:rank]\nwhole[0] = 5.0",
            "return (s * s).sum()",
            "s[:rank]",
            "what is cut is changed by another name",
        ),
        (
            "rank = good.sum()\nif rank < s.size(-1):\n    if x[0] > 0:\n        s = s[:rank]",
            "return s.sum()",
            "rank < s.size(-1)",
            "it is cut in some cases only",
        ),
        (
            "rank = good.sum()\nrank = rank - 2",
            "return s[:rank].sum()",
            "s[:rank].sum()",
            "the number is bound twice",
        ),
        (
            "rank = good.sum()",
            "return (s[:rank] * x).sum()",
            "(s[:rank] * x).sum()",
            "what is not cut would not have fitted",
        ),
        (
            "rank = good.sum()",
            "return u[:, :rank] @ x[:rank]",
            "u[:, :rank] @ x[:rank]",
            "a product with a vector",
        ),
    )
)
