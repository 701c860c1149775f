import torch


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)
        self.depth = 0

    def forward(self, x):
        self.depth += 1
        try:
            h = self.lin(x)
            h_norm_above_1 = h.norm() > 1
            h = torch.where(
                h_norm_above_1,
                h / torch.where(h_norm_above_1, h, 1).norm(),
                h,
            )
            return h
        finally:
            self.depth -= 1


torch.manual_seed(0)
m = M()
c = torch.compile(m)
print(c(torch.ones(3)), c(torch.ones(3) * 30))
