"""One head for each task, found by the text of the task's number."""

import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, tasks=4):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.heads = nn.ModuleDict({str(task): nn.Linear(3, 2) for task in range(tasks)})

    def forward(self, x, task):
        return self.heads[str(task)](self.body(x).relu())


torch.manual_seed(0)
model = torch.compile(Heads())
for task in (1, 2, 3, 1):
    print(round(model(torch.ones(2, 3), task).sum().item(), 4))
