import torch
import torch.nn as nn


class Quant(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("hi", torch.tensor(1.5))

    def forward(self, x):
        y = torch.clamp(torch.clamp(x / self.scale, min=-1.0), max=self.hi.detach())
        return y.round() * self.scale + y.clamp(min=(self.hi * -1).detach()).clamp(max=2)


torch.manual_seed(0)
m = torch.compile(Quant())
m(torch.randn(3, 4)).sum().backward()
print(m.scale.grad)
