import torch
from torch import nn


class Gain(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("gain", torch.ones(size))

    def forward(self, x):
        first = not self.begun.item()
        self.begun.fill_(True)
        scaled = x * self.gain
        if first:
            scaled = scaled / (x.abs().mean() + 1.0)
        return scaled.relu() + 1


torch.manual_seed(0)
gain = torch.compile(Gain(4))
for _ in range(3):
    print(f"{gain(torch.randn(2, 4)).sum().item():.4f}")
