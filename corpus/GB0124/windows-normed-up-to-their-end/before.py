import torch
from torch import nn


class Norm(nn.Module):
    """Norms each recording by its mean and spread up to its end, or all of them by the average."""

    def __init__(self, each=True):
        super().__init__()
        self.each = each
        self.least = 1e-3

    def measured(self, frames, length):
        end = torch.round(length * frames.shape[0]).int()
        part = frames[0:end]
        return part.mean(dim=0).detach(), part.std(dim=0).detach() + self.least

    def forward(self, x, lengths):
        out = x.clone()
        found = [self.measured(x[i], lengths[i]) for i in range(x.shape[0])]
        means, spreads = [mean for mean, _ in found], [spread for _, spread in found]
        for i, (mean, spread) in enumerate(found):
            if self.each:
                out[i] = (x[i] - mean) / spread
        if not self.each:
            out = (x - torch.stack(means).mean(0)) / torch.stack(spreads).mean(0)
        return out


torch.manual_seed(0)
norms = [Norm(each=True), Norm(each=False)]
for norm in norms:
    model = torch.compile(norm, backend="aot_eager")
    for lengths in ([1.0, 0.5, 0.8], [0.3, 1.0, 0.6]):
        print(f"{model(torch.randn(3, 10, 4), torch.tensor(lengths)).square().sum().item():.4f}")
