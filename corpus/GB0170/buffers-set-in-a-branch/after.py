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
        was_ready = self.ready.clone()
        self.center.copy_(torch.where(was_ready, self.center, x.mean(0)))
        self.ready.masked_fill_(~was_ready, True)
        return x - self.center


codebook = torch.compile(Codebook())
for seed in range(3):
    torch.manual_seed(seed)
    print(codebook(torch.randn(5, 4)))
