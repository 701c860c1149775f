import torch


class Swish(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x * torch.sigmoid(self.beta * x)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.act = torch.jit.script(Swish())

    def forward(self, x):
        return self.act(self.layer(x))


torch.manual_seed(0)
model = torch.compile(Block())
model(torch.randn(2, 4)).sum().backward()
print(sorted(model.state_dict()), model.act.beta.grad)
