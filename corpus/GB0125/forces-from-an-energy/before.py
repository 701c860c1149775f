import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.forces = True
        self.net = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, positions):
        if self.forces:
            positions.requires_grad_(True)
        energy = self.net(positions).sum()
        if self.forces:
            slope = torch.autograd.grad([energy], [positions], create_graph=self.training)[0]
            return energy, -slope
        return energy, None


torch.manual_seed(0)
model = torch.compile(Potential().eval())
print(model(torch.randn(4, 3))[1].shape)
