import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scratch", torch.empty(8))

    def forward(self, x):
        x = torch.where(x.sum() > 0, x * 2, x)
        return x


torch.manual_seed(0)
print(torch.compile(Scale())(torch.randn(3)).shape)
