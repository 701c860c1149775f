import torch
from torch import nn
from torch.jit import ScriptModule, script_method


class Cell(ScriptModule):
    __constants__ = ["gain"]

    def __init__(self, size):
        super().__init__()
        self.gain = 0.5
        self.mix = nn.Linear(2 * size, size)

    # One step of the recurrence.
    @script_method
    def forward(self, x, state):
        mixed = self.mix(torch.cat([x, state], dim=1))
        return self.gain * torch.tanh(mixed)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell(3)

    def forward(self, xs):
        state = torch.zeros_like(xs[0])
        for x in xs:
            state = self.cell(x, state)
        return state


torch.manual_seed(0)
net = Net()
step = torch.compile(net)
for length in (2, 4):
    out = step(torch.randn(length, 2, 3))
    out.sum().backward()
    print(round(out.sum().item(), 4), sorted(net.state_dict()))
