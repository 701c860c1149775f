import torch


class Net(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x) * 2


layer = torch.jit.script(torch.nn.Linear(2, 2))
print(torch.compile(Net(layer))(torch.ones(2)).shape)
