import torch
from torch import nn


class Codebook(nn.Module):
    """Starts from the first batch that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ready", torch.zeros((), dtype=torch.bool))
        self.register_buffer("center", torch.zeros(4))

    @torch.no_grad()
    def forward(self, x):
        def if_not_ready(center, ready):
            center = center.clone()
            ready = ready.clone()
            center.copy_(x.mean(0))
            ready.fill_(True)
            return center, ready

        def otherwise(center, ready):
            return center.clone(), ready.clone()

        center, ready = torch.cond(
            torch.logical_not(self.ready),
            if_not_ready,
            otherwise,
            (self.center.clone(), self.ready.clone()),
        )
        self.center.copy_(center)
        self.ready.copy_(ready)
        return x - self.center


codebook = torch.compile(Codebook())
for seed in range(3):
    torch.manual_seed(seed)
    print(codebook(torch.randn(5, 4)))
