import math

import torch
import torch.nn as nn


class Balancer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("avg", torch.tensor(0.0))
        self.steps = 0

    def forward(self, loss):
        self.steps += 1
        v = loss.detach().item()
        if math.isnan(v) or math.isinf(v):
            return torch.zeros_like(loss)
        self.avg = 0.9 * self.avg + 0.1 * v
        return loss / (self.avg / (1 - 0.9 ** self.steps) + 1e-6)


b = torch.compile(Balancer())
w = torch.tensor(2.0, requires_grad=True)
for k in (1.0, 3.0, float("nan"), 2.0):
    out = b(w * k)
    print(out.item())
