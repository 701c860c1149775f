import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.third = torch.nn.Linear(4, 2)

    @torch.compiler.disable
    def quantize(self, x):
        return torch.round(x * 16) / 16

    @torch.compiler.disable
    def clip(self, x):
        return x.clamp(-1.0, 1.0)

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        h = self.forward_before(x)
        h = self.quantize(h)
        return self.forward_after(h)

    def forward_before(self, x):
        h = torch.relu(self.first(x))
        return h

    @torch.compiler.disable(recursive=False)
    def forward_after(self, h):
        h = self.forward_after_before(h)
        h = self.clip(h)
        return self.forward_after_after(h)

    def forward_after_before(self, h):
        h = torch.relu(self.second(h)) * 2
        return h

    def forward_after_after(self, h):
        return self.third(h)


torch.manual_seed(0)
net = torch.compile(Net())
print(net(torch.ones(3, 4)).shape)
