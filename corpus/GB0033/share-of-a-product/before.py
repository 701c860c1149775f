import numpy as np
import torch


class Hardest(torch.nn.Module):
    def __init__(self, k=3, stride=2):
        super().__init__()
        self.k = k
        self.stride = stride

    def forward(self, losses):
        count = np.prod(losses.shape)
        worst, _ = torch.topk(losses.view((-1,)), int(count // self.k), sorted=False)
        pad = 0.5 * (self.stride * (losses.shape[-1] // self.stride - 1) + self.k)
        worst = torch.nn.functional.pad(worst, [int(np.floor(pad)), int(np.ceil(pad))])
        return worst.sum() / self.k


torch.manual_seed(0)
hardest = torch.compile(Hardest())
for rows in (4, 6):
    print(f"{hardest(torch.rand(rows, 5)).item():.4f}")
