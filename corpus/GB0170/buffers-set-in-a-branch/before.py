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
        if not self.ready:
            self.center.copy_(x.mean(0))
            self.ready.fill_(True)
        return x - self.center


codebook = torch.compile(Codebook())
for seed in range(3):
    torch.manual_seed(seed)
    print(codebook(torch.randn(5, 4)))
