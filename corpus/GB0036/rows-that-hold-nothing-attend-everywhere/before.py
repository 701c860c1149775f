import torch
from torch import nn


class Decoder(nn.Module):
    """Queries that attend where the masks of the layer before them tell."""

    def __init__(self, width=8, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, queries, pixels):
        hidden = (queries @ pixels.transpose(1, 2)).sigmoid() < 0.5
        for layer in self.layers:
            hidden[torch.where(hidden.sum(-1) == hidden.shape[-1])] = False
            scores = (layer(queries) @ pixels.transpose(1, 2)).masked_fill(hidden, -1e4)
            queries = queries + scores.softmax(-1) @ pixels
            hidden = (queries @ pixels.transpose(1, 2)).sigmoid() < 0.5
        return queries


torch.manual_seed(0)
decoder = Decoder()
step = torch.compile(decoder)
for shift in (0.0, -2.0):
    found = step(torch.randn(2, 3, 8) + shift, torch.randn(2, 5, 8))
    found.square().mean().backward()
    print(found.sum().item(), decoder.layers[0].weight.grad.norm().item())
