"""Examples and near misses of `hit_loop`."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, tensor
from gbfix.schema import Fact

_FACTS = {
    "hit": tensor(2, 1, dtype="torch.int64"),
    "mask": tensor(4, 2, 6, dtype="torch.int64"),
    "self.experts": Fact("module", "torch.nn.ModuleList"),
}
_BODY = """
import torch


class Experts(torch.nn.Module):
    def forward(self, states, mask, weights):
        result = torch.zeros_like(states)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for number in hit:
            place, row = torch.where(mask[number].squeeze(0))
            update = self.experts[number](states[row]) * weights[row, place, None]
            result.index_add_(0, row, update)
        return result
"""
_AFTER = (
    _BODY.replace("0).nonzero()", "0)")
    .replace("in hit:", "in range(hit.shape[0]):")
    .replace("torch.where(mask[number].squeeze(0))", "torch.where(mask[number] * hit[number])")
)
_WEIGHTS = """
import torch


class Experts(torch.nn.Module):
    def forward(self, states, mask, weights):
        result = torch.zeros_like(states)
        with torch.no_grad():
            hit = (mask.sum(dim=(-1, -2)) > 0).nonzero()
        for number in hit:
            number = number[0]
            if number == self.count:
                continue
            place, row = torch.where(mask[number])
            if row.numel() == 0:
                continue
            update = states[row] @ self.weight[number]
            result.index_add_(0, row, update * weights[row, place, None])
        return result
"""
_WEIGHTS_AFTER = (
    _WEIGHTS.replace("0).nonzero()", "0)")
    .replace("in hit:", "in range(hit.shape[0]):")
    .replace("            number = number[0]\n", "")
    .replace("            if row.numel() == 0:\n                continue\n", "")
    .replace("torch.where(mask[number])", "torch.where(mask[number] * hit[number])")
)
_IDENTITY = """
import torch


class Experts(torch.nn.Module):
    def forward(self, states, mask, weights):
        result = torch.zeros_like(states)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for place_of in hit:
            number = int(place_of.item())
            place, row = torch.where(mask[number].squeeze(0))
            if row.numel() == 0:
                continue
            chosen = states[row]
            if number >= self.count or self.weight is None:
                update = self.identity(chosen)
            else:
                left, right = (chosen @ self.weight[number]).chunk(2, dim=-1)
                update = left * right
            result.index_add_(0, row, update * weights[row, place, None])
        return result
"""
_IDENTITY_AFTER = (
    _IDENTITY.replace("0).nonzero()", "0)")
    .replace("for place_of in hit:", "for number in range(hit.shape[0]):")
    .replace("            number = int(place_of.item())\n", "")
    .replace("            if row.numel() == 0:\n                continue\n", "")
    .replace(".squeeze(0))", ".squeeze(0) * hit[number])")
)


def _other(old: str, new: str, why: str) -> NearMiss:
    assert old in _IDENTITY
    return NearMiss(_IDENTITY.replace(old, new), at="in hit", why=why, facts=_FACTS)


def _near_miss(old: str, new: str, why: str, **facts: Fact) -> NearMiss:
    assert old in _BODY
    return NearMiss(_BODY.replace(old, new), at="in hit", why=why, facts=_FACTS | facts)


EXAMPLES = (
    Example(_BODY, _AFTER, at="in hit", facts=_FACTS, title="experts in a list"),
    Example(_WEIGHTS, _WEIGHTS_AFTER, at="in hit", facts=_FACTS, title="weights in a tensor"),
    Example(_IDENTITY, _IDENTITY_AFTER, at="in hit", facts=_FACTS, title="some do nothing"),
)
NEAR_MISSES = (
    _near_miss("place, row = torch", "count = count + 1\n            place, row = torch",
               "counts its rounds"),
    _near_miss("return result", "return result, update", "the last round's value is used"),
    _near_miss("return result", "return result, number", "the last place is used"),
    _near_miss("return result", "return result, hit", "the places are used"),
    _near_miss("result.index_add_(0, row, update)", "result[row] = update", "overwrites"),
    _near_miss("result.index_add_(0, row, update)", "result = result + update.mean()",
               "the mean of no rows is NaN"),
    _near_miss("result.index_add_(0, row, update)", "result.add_(update.sum(0))",
               "another change in place"),
    _near_miss("index_add_(0, row, update)", "index_add_(0, number, update)",
               "rows that were not found by the mask"),
    _near_miss("update = self", "print(number)\n            update = self", "prints"),
    _near_miss("update = self", "states.mul_(2)\n            update = self",
               "changes its input"),
    _near_miss("update = self", "seen = self.seen.pop()\n            update = self",
               "changes a list"),
    _near_miss("(states[row])", "(states[row].relu_())", "changes a tensor in place"),
    _near_miss("(states[row])", "(states[row] * number)", "computes with the place"),
    _near_miss("[number](", "[str(number)](", "a name made of the place"),
    _near_miss("self.experts[number](", "self.layers[number](", "layers of an unknown kind"),
    _near_miss(".squeeze(0))", ")", "one more index"),
    _near_miss("torch.greater(mask.sum(dim=(-1, -2)), 0)", "mask.sum(dim=(-1, -2))",
               "a number is no mask"),
    _near_miss("update = self",
               "if place.sum() > 1:\n                break\n            update = self",
               "ends early"),
    _near_miss("in hit:", "in hit.unbind():", "another loop"),
    _other("(chosen)", "(chosen + place_of)", "the tensor is used beside its number"),
    _other("self.weight is None", "row.sum() > 3", "a branch on data"),
    _other("self.weight is None", "chosen is None", "a branch on what the rows give"),
    _other("self.weight is None", "self.more()", "a branch that calls something"),
    _other("update = self.identity(chosen)", "other = self.identity(chosen)",
           "the last round's value where a branch gives none"),
    _other("left * right\n", "left * right\n                print(number)\n", "prints"),
    _other("left * right\n", "left * right\n                result[row] = left\n",
           "overwrites"),
    _near_miss("in hit", "in hit", "a mask of floats", mask=tensor(4, 2, 6)),
    _near_miss("in hit", "in hit", "pairs of places", hit=tensor(2, 2, dtype="torch.int64")),
    _near_miss("update = self", "row = self.slots\n            update = self",
               "other rows under that name"),
    _near_miss("torch.greater(mask.sum(dim=(-1, -2)), 0)", "self.wanted.bool()",
               "a tensor of bools that may change"),
    _near_miss("* weights[row", "* torch.randn(4) * weights[row", "draws random numbers"),
    _near_miss("for number in hit", "torch = self\n        for number in hit",
               "torch is another name"),
)  # fmt: skip
