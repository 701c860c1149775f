import torch
from torch import nn


class Points(nn.Module):
    """Places of clicks, each marked by its kind: outside, off or on the object."""

    def __init__(self, dim=4):
        super().__init__()
        self.place = nn.Linear(2, dim)
        self.outside = nn.Embedding(1, dim)
        self.kinds = nn.ModuleList(nn.Embedding(1, dim) for _ in range(2))

    def forward(self, points, labels):
        marked = torch.sin(self.place(points))
        marked[labels == -1] = 0.0
        marked.copy_(torch.where((labels == -1)[..., None], marked + self.outside.weight[0], marked))
        marked.copy_(torch.where((labels == 0)[..., None], marked + self.kinds[0].weight[0], marked))
        return marked


torch.manual_seed(0)
model = torch.compile(Points(), backend="aot_eager")
for labels in ([[1, 0, -1], [0, 0, 1]], [[1, 1, 1], [1, 1, 1]]):
    out = model(torch.rand(2, 3, 2), torch.tensor(labels))
    out.square().sum().backward()
    print(f"{out.sum().item():.4f}")
