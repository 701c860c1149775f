import torch


class Repair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.repaired = 0

    def forward(self, x):
        y = x.exp()
        if torch.isinf(y).any():
            self.repaired += 1
            print(f"repaired {int(torch.isinf(y).sum())} of {y.numel()}")
            y = torch.nan_to_num(y, posinf=1.0)
        return y


repair = Repair()
f = torch.compile(repair)
for scale in (1.0, 100.0):
    print(f(torch.arange(3.0) * scale))
print(repair.repaired)
