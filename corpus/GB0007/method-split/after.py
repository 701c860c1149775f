import subprocess

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(4, 4)
        self.outer = torch.nn.Linear(4, 2)

    def forward(self, x, skip=False):
        if skip:
            return x
        hidden = self.forward_part_1(x)
        try:
            subprocess.run(["true"], check=True)
        except OSError:
            hidden = self.forward_part_2(hidden)
        return self.forward_part_3(hidden)

    @torch.compile
    def forward_part_1(self, x):
        hidden = self.inner(x).relu()
        return hidden

    @torch.compile
    def forward_part_2(self, hidden):
        hidden = hidden * 0
        return hidden

    @torch.compile
    def forward_part_3(self, hidden):
        return self.outer(hidden)


net = Net()
for scale in (1.0, -2.0):
    out = net(torch.arange(8.0).reshape(2, 4) * scale)
    out.sum().backward()
    print(out.sum().item(), net.inner.weight.grad.sum().item())
