"""What `list-beside` rewrites, and what only looks like it."""

from __future__ import annotations

from collections.abc import Mapping

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_LOCAL = """
import torch


def f(maps):
    sizes = []
    for x in maps:
        height, width = x.shape[-2:]
        sizes.append((height, width))
    shapes = torch.as_tensor(sizes, dtype=torch.long)
    grids = []
    for level, (h, w) in enumerate(shapes):
        row = torch.linspace(0.5, h - 0.5, h)
        grids.append(row[:, None] / w + level)
    return grids
"""
_HELPER = """
import torch


def grids(x, shapes):
    found = []
    start = 0
    for h, w in shapes:
        part = x[start : start + h * w]
        found.append(part.view(h, w) * h)
        start += h * w
    return found


def f(x, maps):
    sizes = [(x.size(0) // 2, 2)]
    shapes = torch.tensor(sizes)
    return grids(x, shapes)
"""
_PARAMETERS = """
import torch


class Encoder(torch.nn.Module):
    @staticmethod
    def points(shapes, ratio):
        found = []
        for h, w in shapes:
            found.append(torch.zeros(h, w) + ratio * w)
        return torch.cat(found)

    def forward(self, x, shapes, shapes_list):
        return x + self.points(shapes, ratio=x[0])
"""
_FACTS = {
    "shapes": tensor(2, 2, dtype="torch.int64"),
    "h": tensor(dtype="torch.int64"),
    "w": tensor(dtype="torch.int64"),
    "row[:, None]": tensor(3, 1),
    "x": tensor(8),
    "part": tensor(4),
    "part.view(h, w)": tensor(2, 2),
    "ratio": tensor(4),
    "level": scalar(0, constant=False),
}
_AT = "torch.linspace(0.5, h - 0.5, h)"
_AT_HELPER = "part.view(h, w)"
_AT_PARAMETERS = "torch.zeros(h, w)"

EXAMPLES = (
    Example(
        _LOCAL,
        _LOCAL.replace("enumerate(shapes)", "enumerate(sizes)"),
        at=_AT,
        facts=_FACTS,
        title="in the same function",
    ),
    Example(
        _HELPER,
        _HELPER.replace("return grids(x, shapes)", "return grids(x, sizes)"),
        at=_AT_HELPER,
        facts=_FACTS,
        title="in a helper",
    ),
    Example(
        _PARAMETERS,
        _PARAMETERS.replace("points(shapes, ratio=x", "points(shapes_list, ratio=x"),
        at=_AT_PARAMETERS,
        facts=_FACTS,
        title="two parameters, which their names connect (unsafe)",
    ),
)


def _local(old: str, new: str, why: str, at: str = _AT, **facts: Fact) -> NearMiss:
    assert old in _LOCAL
    return NearMiss(_LOCAL.replace(old, new), at=at, why=why, facts=_FACTS | facts)


def _helper(old: str, new: str, why: str, facts: Mapping[str, Fact] = _FACTS) -> NearMiss:
    assert old in _HELPER
    return NearMiss(_HELPER.replace(old, new), at=_AT_HELPER, why=why, facts={**_FACTS, **facts})


def _parameters(old: str, new: str, why: str, at: str = _AT_PARAMETERS) -> NearMiss:
    assert old in _PARAMETERS
    return NearMiss(_PARAMETERS.replace(old, new), at=at, why=why, facts=_FACTS)


NEAR_MISSES = (
    _local("    grids = []\n", "    grids = []\n    sizes.append((1, 1))\n", "grows afterwards"),
    _local("    grids = []\n", "    grids = []\n    sizes = [(1, 1)]\n", "another list"),
    _local("    grids = []\n", "    grids = []\n    shapes += 1\n", "the tensor changes"),
    _local("    grids = []\n", "    grids = []\n    shapes[0] = 1\n", "an element changes"),
    _local("    grids = []\n", "    grids = []\n    shapes = shapes * 2\n", "another tensor"),
    _local("    grids = []\n", "    grids = []\n    shapes.clamp_(max=4)\n", "changed in place"),
    _local("    grids = []\n", "    grids = []\n    other = sizes\n", "a second name"),
    _local("    sizes = []\n", "    other = sizes = []\n", "two names from the start"),
    _local("    sizes = []\n", "    sizes = maps[0]\n", "not made here"),
    _local("height, width = x.shape[-2:]", "height, width = x.tolist()", "floats, perhaps"),
    _local("height, width = x.shape[-2:]", "height, width = 0.5, x.size(0)", "a float"),
    _local("append((height, width))", "append((height / 2, width))", "a true division"),
    _local("append((height, width))", "append((height, width, 1))", "more than is unpacked"),
    _local("append((height, width))", "append(x)", "tensors, perhaps"),
    _local("append((height, width))", "extend(x.shape)", "filled otherwise"),
    _local("dtype=torch.long", "dtype=torch.float32", "rounds", shapes=tensor(2, 2)),
    _local("as_tensor(sizes,", "as_tensor(sizes[::-1],", "not the list itself"),
    _local("row[:, None] / w", "h.item() * row", "a method that ints lack"),
    _local("row[:, None] / w", "row[h - 1]", "an index by a tensor copies"),
    _local("row[:, None] / w", "torch.stack([h, w])", "puts the tensors together"),
    _local("row[:, None] / w", "row + (h > 2)", "a comparison"),
    _local("row[:, None] / w", "row[:, None] * (0.1 * w)", "rounded to float32 in a tensor"),
    _local("row[:, None] / w", "maps[:w]", "a slice of something of its own"),
    _local("row[:, None] / w", "w / row[:, None]", "the other way round, rounded otherwise"),
    _local("row[:, None] / w", "row * max(h, w)", "an unknown call"),
    _local("        grids.append", "        h += 1\n        grids.append", "changes the tensor"),
    _local("    return grids", "    return grids, h", "given away after the loop"),
    _local("    return grids", "    return lambda: h", "kept by a closure"),
    _local(
        "    shapes = torch.as_tensor(sizes, dtype=torch.long)\n    grids = []\n",
        "    grids = []\n    if maps:\n        shapes = torch.as_tensor(sizes)\n",
        "made on a condition",
    ),
    _helper("return found\n", "return found, shapes.sum()\n", "uses the tensor itself"),
    _helper("    start = 0\n", "    shapes = shapes + 1\n", "binds its parameter anew"),
    _helper(
        "        start += h * w\n",
        "        last = start\n        start += h * w\n",
        "a second name of what `+=` changes",
    ),
    _helper("        start += h * w\n", "        start = h * x\n", "no number any more"),
    _helper("def grids", "@torch.jit.script\ndef grids", "decorated"),
    _helper("def f(x, maps):", "def f(x, maps, grids):", "another function of that name"),
    _helper("return grids(x, shapes)", "return grids(x, shapes * 2)", "not the tensor itself"),
    _helper("return grids(x, shapes)", "return grids(*[x, shapes])", "passed by a star"),
    _helper(
        "part.view(h, w) * h",
        "part.view(h, w) * h",
        "narrow numbers, widened by a tensor",
        facts={"part.view(h, w)": tensor(dtype="torch.int32")},
    ),
    _parameters("shapes_list):", "lengths_list):", "no list of its name"),
    _parameters(
        "        return x +", "        shapes_list.pop()\n        return x +", "changes it"
    ),
    _parameters("self.points(", "x.points(", "the method of something else"),
    _parameters(
        "    def forward",
        "    def points(self, shapes, ratio):\n        return 1\n\n    def forward",
        "two methods of that name",
    ),
    _parameters("@staticmethod", "@torch.no_grad()", "decorated"),
    _parameters(
        "    def forward(self, x, shapes, shapes_list):\n        return x +",
        "    class Inner:\n"
        "        def forward(self, x, shapes, shapes_list):\n            return x +",
        "the method of another class",
    ),
)
