"""Messages of each relation are added up; a relation without an edge adds nothing."""

import torch
from torch import nn


def edges_of(edges: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return edges[:, chosen]


class Relations(nn.Module):
    def __init__(self, count: int, into: int, out: int) -> None:
        super().__init__()
        self.count = count
        self.weight = nn.Parameter(torch.randn(count, into, out))
        self.root = nn.Parameter(torch.randn(into, out))

    def forward(self, x: torch.Tensor, edges: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(x.shape[0], self.weight.shape[-1])
        for number in range(self.count):
            own = edges_of(edges, kinds == number)
            if own.size(1) == 0:
                continue
            got = torch.zeros_like(x).index_add(0, own[1], x[own[0]])
            out = out + got @ self.weight[number]
        return out + x @ self.root


torch.manual_seed(0)
model = nn.ModuleList([Relations(3, 4, 4), Relations(3, 4, 2)])


@torch.compile(backend="aot_eager")
def run(x: torch.Tensor, edges: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    return model[1](model[0](x, edges, kinds).relu(), edges, kinds)


for most in (3, 2):
    x = torch.randn(6, 4, requires_grad=True)
    edges, kinds = torch.randint(0, 6, (2, 9)), torch.randint(0, most, (9,))
    out = run(x, edges, kinds)
    out.square().mean().backward()
    print(f"{out.sum().item():.3f} {x.grad.norm().item():.3f}")
