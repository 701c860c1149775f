import torch


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.zeros(()))

    def forward(self, x):
        top = x.abs().max()
        self.peak.copy_(torch.where(top > self.peak, top, self.peak))
        return x / (self.peak + 1)


m = M()
c = torch.compile(m)
print(c(torch.ones(3)), c(torch.ones(3) / 2), m.peak)
