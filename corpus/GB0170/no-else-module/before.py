import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(3, 3)
        self.gate = torch.nn.Linear(3, 1)

    def forward(self, x):
        if self.gate(x).mean() > 0:
            x = self.project(x)
        return x * 2


torch.manual_seed(0)
block = torch.compile(Block().eval())
with torch.no_grad():
    for scale in (1, -1):
        x = scale * torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
        print(block(x))

