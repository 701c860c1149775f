from typing import List

import torch


class Stacked(torch.nn.Module):
    def forward(self, given):
        if isinstance(given, list) and all(isinstance(item, torch.Tensor) for item in given):
            given = torch.stack(given)
        if not isinstance(given, torch.Tensor):
            raise ValueError(f"no tensors: {given}")
        return given * 2


stacked = torch.compile(Stacked())
print(stacked([torch.ones(2), torch.zeros(2)]))
print(stacked(torch.ones(2)))
