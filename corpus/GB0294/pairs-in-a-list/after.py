"""Each image's rows taken apart by numpy, in a list whose items are pairs of arrays."""

import numpy as np
import torch
from torch import nn


@torch.library.custom_op("before::pairs_op", mutates_args=())
def pairs_op(part: torch.Tensor, i: int) -> tuple[torch.Tensor, torch.Tensor]:
    result = np.frexp(part[i].numpy())
    return torch.tensor(result[0]), torch.tensor(result[1])


@pairs_op.register_fake
def _(part, i):
    return (part.new_empty((part.shape[1], part.shape[2])), torch.empty((part.shape[1], part.shape[2]), dtype=torch.int32))


class Powers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    @torch.no_grad()
    def pairs(self, rows, sizes):
        made = self.layer(rows).view(2, -1, 3)
        pairs = []
        for i, part in enumerate(made.split(sizes, 1)):
            part_0, part_1 = pairs_op(part, i)
            pairs.append((part_0.numpy(), part_1.numpy()))
        return [(torch.as_tensor(share), torch.as_tensor(power)) for share, power in pairs]

    def forward(self, rows, sizes):
        total = 0
        for share, power in self.pairs(rows, sizes):
            total = total + (share * power).sum()
        return total * self.layer(rows).sum()


torch.manual_seed(0)
model = Powers()
compiled = torch.compile(model)
for sizes in ([2, 3], [4, 1]):
    total = compiled(torch.rand(10, 4), sizes)
    total.backward()
    print(f"{total.item():.4f} {model.layer.weight.grad.square().sum().item():.4f}")
