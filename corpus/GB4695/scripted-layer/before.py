import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.jit.script(torch.nn.Linear(2, 2))

    def forward(self, x):
        return self.layer(x) * 2


print(torch.compile(Net())(torch.ones(2)).shape)
