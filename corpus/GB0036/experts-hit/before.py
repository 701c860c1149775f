import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, size, count):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(size, size) for _ in range(count))

    def forward(self, states, chosen, weights):
        result = torch.zeros_like(states)
        mask = torch.nn.functional.one_hot(chosen, len(self.experts)).permute(2, 1, 0)

        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for number in hit:
            place, row = torch.where(mask[number].squeeze(0))
            update = self.experts[number](states[row]) * weights[row, place, None]
            result.index_add_(0, row, update)
        return result


torch.manual_seed(0)
model = torch.compile(Experts(4, 4))
states = torch.randn(6, 4)
scores = torch.randn(6, 4).softmax(-1)
weights, chosen = torch.topk(scores, 2)
print(model(states, chosen, weights).sum())
weights, chosen = torch.topk(torch.randn(6, 4).softmax(-1), 2)
print(model(states, chosen, weights).sum())
