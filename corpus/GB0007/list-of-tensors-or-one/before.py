from typing import List

import torch


class Stacked(torch.nn.Module):
    def forward(self, given):
        if torch.jit.isinstance(given, List[torch.Tensor]):
            given = torch.stack(given)
        if not torch.jit.isinstance(given, torch.Tensor):
            raise ValueError(f"no tensors: {given}")
        return given * 2


stacked = torch.compile(Stacked())
print(stacked([torch.ones(2), torch.zeros(2)]))
print(stacked(torch.ones(2)))
