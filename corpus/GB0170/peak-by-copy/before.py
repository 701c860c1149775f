import torch


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.zeros(()))

    def forward(self, x):
        top = x.abs().max()
        if top > self.peak:
            self.peak.copy_(top)
        return x / (self.peak + 1)


m = M()
c = torch.compile(m)
print(c(torch.ones(3)), c(torch.ones(3) / 2), m.peak)
