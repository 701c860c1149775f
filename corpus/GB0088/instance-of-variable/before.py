import torch
from torch.autograd import Variable


class Norm(torch.nn.BatchNorm1d):
    def forward(self, x):
        if isinstance(x, Variable):
            self._check_input_dim(x)
            return super().forward(x) * 2
        else:
            raise RuntimeError("unknown kind of input")


torch.manual_seed(0)
norm = torch.compile(Norm(3))
for rows in (4, 6):
    print(f"{norm(torch.rand(rows, 3)).square().mean().item():.4f}")
