import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(2))

    def forward(self, x, temperature):
        for layer in self.layers:
            rate = round(temperature.item(), 2)
            # A Python number, as the caller rounds it.
            x = layer(x) * rate
        return x


torch.manual_seed(0)
net = torch.compile(Net())
print(net(torch.ones(2, 3), torch.tensor(0.5)))
