import torch


class LowRank(torch.nn.Module):
    def __init__(self, tolerance=0.5):
        super().__init__()
        self.tolerance = tolerance
        self.mix = torch.nn.Linear(5, 5)

    def forward(self, x):
        m = self.mix(x)
        u, s, vh = torch.linalg.svd(m, full_matrices=False)
        rank = (s > self.tolerance).sum().item()
        u = u[:, :rank]
        s = s[:rank]
        vh = vh[:rank]
        return (u * s) @ vh


torch.manual_seed(0)
model = torch.compile(LowRank())
for scale in (1.0, 0.3):
    out = model(torch.randn(6, 5) * scale)
    out.sum().backward()
    print(out.sum(), model.mix.weight.grad.abs().sum())
