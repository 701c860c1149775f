import torch
import torch.nn as nn


class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def grid(self, flow):
        key = (str(flow.device), f"{flow.size()}")
        if key not in self.cache:
            n, _, h, w = flow.shape
            xs = torch.linspace(-1.0, 1.0, w).view(1, 1, 1, w).expand(n, -1, h, -1)
            ys = torch.linspace(-1.0, 1.0, h).view(1, 1, h, 1).expand(n, -1, -1, w)
            self.cache[key] = torch.cat([xs, ys], 1)
        return self.cache[key]

    def forward(self, image, flow):
        n, _, h, w = flow.shape
        scaled = torch.cat([flow[:, :1] / ((w - 1) / 2), flow[:, 1:] / ((h - 1) / 2)], 1)
        where = (self.grid(flow) + scaled).permute(0, 2, 3, 1)
        return torch.nn.functional.grid_sample(image, where, align_corners=True)


torch.manual_seed(0)
warp = torch.compile(Grid())
for s in (4, 4, 6):
    print(warp(torch.randn(1, 3, s, s), torch.randn(1, 2, s, s)).sum().item())
