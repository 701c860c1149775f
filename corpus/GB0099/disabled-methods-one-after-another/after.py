import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.third = torch.nn.Linear(4, 2)

    def quantize(self, x):
        return torch.round(x * 16) / 16

    def clip(self, x):
        return x.clamp(-1.0, 1.0)

    def forward(self, x):
        h = torch.relu(self.first(x))
        h = self.quantize(h)
        h = torch.relu(self.second(h)) * 2
        h = self.clip(h)
        return self.third(h)


torch.manual_seed(0)
net = torch.compile(Net())
print(net(torch.ones(3, 4)).shape)
