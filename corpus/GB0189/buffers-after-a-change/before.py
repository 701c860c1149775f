import torch


class Memory(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(3))
        self.calls = 0

    def forward(self, x):
        self.calls = self.calls + 1
        setattr(self, "state", x)
        total = sum(item.sum() for item in getattr(self, "buffers")())
        return x * total


model = Memory()
print(torch.compile(model)(torch.ones(3)), model.calls)
