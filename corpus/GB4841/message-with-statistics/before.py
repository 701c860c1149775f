import logging

import torch


class Probe(torch.nn.Module):
    """Logs what passes, under a name where it has one."""

    def __init__(self, name=None):
        super().__init__()
        self.name = name

    def forward(self, x):
        message = f"size {tuple(x.shape)}, mean {x.mean():.3f}, largest {x.abs().max():.3f}"
        if self.name is not None:
            message = f"{self.name}: " + message
        logging.warning(message)
        return x


torch.manual_seed(0)
model = torch.compile(torch.nn.Sequential(Probe("first"), torch.nn.ReLU(), Probe()))
with torch.no_grad():
    print(model(torch.randn(2, 3)).sum())
