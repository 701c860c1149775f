import functools

import torch


class Attention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.query = torch.nn.Linear(width, width)

    @functools.cached_property
    def scale(self):
        """What keeps the scores small."""
        return self.width**-0.5

    def forward(self, x):
        scores = self.query(x) @ x.transpose(-1, -2) * self.scale
        return scores.softmax(-1) @ x


torch.manual_seed(0)
model = torch.compile(Attention(4))
for _ in range(2):
    print(model(torch.randn(2, 3, 4)))
