import numpy as np
import torch


class Flat(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self._int_prod_width = int(np.prod(self.width))
        self.linear = torch.nn.Linear(int(np.prod(width)), 3)

    def forward(self, x):
        return self.linear(x.reshape(-1, self._int_prod_width))


torch.manual_seed(0)
flat = torch.compile(Flat(6))
print(flat(torch.ones(2, 2, 3)).sum())
