import torch


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, x):
        super().__init__()
        return x * 2.0


print(torch.compile(Counter())(torch.ones(3)))
