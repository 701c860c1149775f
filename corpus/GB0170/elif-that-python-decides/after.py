import torch


class Block(torch.nn.Module):
    def __init__(self, skip):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.skip = skip

    def forward(self, x):
        y = torch.tanh(self.linear(x))
        if self.skip:
            out = torch.where(y.mean() > 0.1, x + y, x + 0.1 * y)
        else:
            out = y
        return out * 2


torch.manual_seed(0)
for skip in (True, False):
    block = torch.compile(Block(skip))
    for scale in (3.0, -3.0):
        print(skip, block(torch.full((2, 4), scale)).sum().item())
