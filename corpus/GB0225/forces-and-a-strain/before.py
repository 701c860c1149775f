import torch


class Potential(torch.nn.Module):
    """The energy of some points, its derivatives by them, and by a strain of the space."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )

    def forward(self, points):
        strain = torch.zeros(3, 3, dtype=points.dtype, requires_grad=True)
        points = points.detach().requires_grad_(True)
        moved = points + points @ (strain + strain.T) / 2
        energy = self.layers(moved).sum()
        by_points, by_strain = torch.autograd.grad(energy, [points, strain], create_graph=True)
        return energy, -by_points, by_strain


torch.manual_seed(0)
potential = torch.compile(Potential())
energy, forces, stress = potential(torch.randn(5, 3))
(energy + forces.square().mean()).backward()
print(f"{energy.item():.4f} {stress.trace().item():.4f}")
