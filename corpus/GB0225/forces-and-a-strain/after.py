import torch


class Potential(torch.nn.Module):
    """The energy of some points, its derivatives by them, and by a strain of the space."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )

    def forward(self, points):
        strain = torch.zeros(3, 3, dtype=points.dtype)
        points = points.detach()

        def energy_of_points_and_strain(points, strain):
            moved = points + points @ (strain + strain.T) / 2
            energy = self.layers(moved).sum()
            return energy

        energy, pull = torch.func.vjp(energy_of_points_and_strain, points, strain)
        by_points, by_strain = pull(torch.ones_like(energy))
        return energy, -by_points, by_strain


torch.manual_seed(0)
potential = torch.compile(Potential())
energy, forces, stress = potential(torch.randn(5, 3))
(energy + forces.square().mean()).backward()
print(f"{energy.item():.4f} {stress.trace().item():.4f}")
