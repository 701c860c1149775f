import torch
from torch import nn


def centres(samples, number, rounds=3):
    means = samples[:number].clone()
    for _ in range(rounds):
        nearest = torch.cdist(samples, means).argmin(-1)
        hits = nn.functional.one_hot(nearest, number).to(samples.dtype)
        counts = hits.sum(0)
        means = torch.where((counts == 0)[:, None], means, hits.t() @ samples / counts.clamp(min=1)[:, None])
    return means, counts


class Codebook(nn.Module):
    def __init__(self, dim=3, size=4):
        super().__init__()
        self.size = size
        self.register_buffer("made", torch.tensor([False]))
        self.register_buffer("codes", torch.zeros(size, dim))
        self.register_buffer("used", torch.zeros(size))

    def make(self, samples):
        if self.made:
            return
        codes, counts = centres(samples, self.size)
        self.codes.data.copy_(codes)
        self.used.data.copy_(counts)
        self.made.data.copy_(torch.tensor([True]))

    def forward(self, x):
        with torch.no_grad():
            self.make(x)
        nearest = torch.cdist(x, self.codes).argmin(-1)
        return x + (self.codes[nearest] - x).detach(), nearest


torch.manual_seed(0)
model = torch.compile(Codebook(), backend="aot_eager")
for scale in (1.0, 2.0):
    out, nearest = model(scale * torch.randn(8, 3))
    print(f"{out.sum().item():.4f}", nearest.tolist())
