"""Examples and near misses of `sorted-to-masks`."""

from gbfix.codemod import Example, NearMiss, tensor
from gbfix.schema import Fact

_SOURCE = """
import torch
import torch.nn.functional as F


class Experts(torch.nn.Module):
    def infer(self, x, ids, weights):
        out = torch.zeros_like(x)
        order = ids.argsort()
        tokens = order // 2
{}        return out
"""
_LOOP = """        ends = ids.bincount().cpu().numpy().cumsum(0)
        for i, end in enumerate(ends):
            start = 0 if i == 0 else ends[i - 1]
            if start == end:
                continue
            expert = self.experts[i]
            # Who is here.
            at = tokens[start:end]
            made = expert(x[at]) * weights[order[start:end]]
            out.index_add_(0, at, made)
"""
_AFTER = """        sorted_ids = ids[order]
        torch._assert_async(((sorted_ids >= 0) & (sorted_ids < len(self.experts))).all(), "a number\
 is not that of an expert")
        for i in range(len(self.experts)):
            own = sorted_ids == i
            expert = self.experts[i]
            # Who is here.
            at = tokens
            made = expert(torch.where(own[:, None], x[at], 0)) * torch.where(own[:, None], weights\
[order], 0)
            out.index_add_(0, at, torch.where(own[:, None], made, 0))
"""
_INT = tensor(10, dtype="torch.int64")
_FACTS = {
    "x": tensor(5, 3),
    "ids": _INT,
    "order": _INT,
    "tokens": _INT,
    "weights": tensor(10, 1),
    "out": tensor(5, 3),
    "x[at]": tensor(3, 3),
    "at": tensor(3, dtype="torch.int64"),
    "tokens[start:end]": tensor(3, dtype="torch.int64"),
    "order[start:end]": tensor(3, dtype="torch.int64"),
    "weights[order[start:end]]": tensor(3, 1),
    "made": tensor(3, 3),
    "expert": Fact("module", "torch.nn.modules.linear.Linear"),
    "self.experts": Fact("module", "torch.nn.ModuleList"),
}
EXAMPLES = (
    Example(
        _SOURCE.format(_LOOP), _SOURCE.format(_AFTER), at="enumerate(ends)", facts=_FACTS,
        title="added at the rows of tokens",
    ),
)  # fmt: skip


def _near_miss(why: str, old: str, new: str) -> NearMiss:
    assert old in _LOOP, old
    text = _SOURCE.format(_LOOP.replace(old, new))
    return NearMiss(text, at="for i, end in enumerate(ends)", why=why, facts=_FACTS)


NEAR_MISSES = (
    _near_miss("counts of other numbers", "ids.bincount()", "(ids % 3).bincount()"),
    _near_miss("weighted counts", "ids.bincount()", "ids.bincount(weights)"),
    _near_miss("no running sum", ".cumsum(0)", ""),
    _near_miss("it begins elsewhere", "start = 0 if", "start = 1 if"),
    _near_miss("parts overlap", "ends[i - 1]", "ends[i - 2]"),
    _near_miss("a part with a step", "tokens[start:end]", "tokens[start:end:2]"),
    _near_miss("how many rows there are", "x[at])", "x[at]) / (end - start)"),
    _near_miss(
        "the size of a part",
        "expert(x[at])",
        "expert(x[at] + torch.arange(at.numel())[:, None])",
    ),
    _near_miss("random numbers", "expert(x[at])", "expert(x[at] + torch.rand(3))"),
    _near_miss("what an earlier round left", "made = expert(x[at])", "x = expert(x[at])"),
    _near_miss("it notes who came", "expert = self", "self.last = i\n            expert = self"),
    _near_miss(
        "one more thing with the sum",
        "            out.",
        "            out = out * 2\n            out.",
    ),
    _near_miss("the bounds are used behind", "made)\n", "made)\n        self.last = ends\n"),
    _near_miss("a part that is changed", "made)\n", "made)\n            weights.mul_(2)\n"),
    _near_miss(
        "another name of the ids changes",
        "        ends =",
        "        same = ids\n        same.clamp_(0, 2)\n        ends =",
    ),
    _near_miss(
        "the ids change in between", "        ends =", "        ids.clamp_(0, 2)\n        ends ="
    ),
    _near_miss(
        "added elsewhere", "out.index_add_(0, at, made)", "out.index_add_(0, at + 1, made[:1])"
    ),
    _near_miss("no sum", "out.index_add_(0, at, made)", "out[at] = made"),
    NearMiss(
        _SOURCE.format(
            _LOOP.replace("i, end in enumerate(ends):", "i in range(4):\n            end = ends[i]")
        ),
        at="for i in range(4)",
        why="counts that may be fewer than the rounds",
        facts=_FACTS,
    ),
    NearMiss(
        _SOURCE.format(
            _LOOP.replace("        ends =", "        grid.add_(1)\n        ends =")
        ).replace(
            "        order =",
            "        grid = x.clone()\n        ids = grid[0]\n        order =",
        ),
        at="for i, end in enumerate(ends)",
        why="ids are part of what changes",
        facts=_FACTS,
    ),
)
