import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, size, count):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(size, size) for _ in range(count))

    def forward(self, states, chosen, weights):
        result = torch.zeros_like(states)
        mask = torch.nn.functional.one_hot(chosen, len(self.experts)).permute(2, 1, 0)

        for number in range(mask.shape[0]):
            chosen_1 = mask[number].T != 0
            picked = chosen_1.any(-1)
            share = torch.where(chosen_1, weights, 0).sum(-1)
            update = self.experts[number](torch.where(picked[:, None], states, 0)) * share[:, None]
            result += torch.where(picked[:, None], update, 0)
        return result


torch.manual_seed(0)
model = torch.compile(Experts(4, 4))
states = torch.randn(6, 4)
scores = torch.randn(6, 4).softmax(-1)
weights, chosen = torch.topk(scores, 2)
print(model(states, chosen, weights).sum())
weights, chosen = torch.topk(torch.randn(6, 4).softmax(-1), 2)
print(model(states, chosen, weights).sum())
