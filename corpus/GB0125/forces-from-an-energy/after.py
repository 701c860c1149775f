import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.forces = True
        self.net = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, positions):
        if self.forces:
            def energy_of_positions(positions):
                energy = self.net(positions).sum()
                return energy

            energy, pull = torch.func.vjp(energy_of_positions, positions)
            slope = pull(torch.ones_like(energy))[0]
            if not self.training:
                slope = slope.detach()
            return energy, -slope
        energy = self.net(positions).sum()
        return energy, None


torch.manual_seed(0)
model = torch.compile(Potential().eval())
print(model(torch.randn(4, 3))[1].shape)
