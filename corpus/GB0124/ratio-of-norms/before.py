"""An optimizer that scales each step by the ratio of two norms, as LARS does."""

import torch
from torch import nn


class Scaled(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["momentum_buffer"] = torch.zeros_like(p)
                buffer = state["momentum_buffer"]
                buffer.mul_(group["momentum"]).add_(p.grad)
                weight = p.norm().item()
                update = buffer.norm().item()
                ratio = weight / update if weight > 0 and update > 0 else 1.0
                p.add_(buffer, alpha=-group["lr"] * ratio)


torch.manual_seed(0)
net = nn.Linear(4, 3)
nn.init.zeros_(net.bias)
optimizer = Scaled(net.parameters())
step = torch.compile(optimizer.step, backend="aot_eager")
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(5, 4)).square().sum().backward()
    step()
    print([round(p.norm().item(), 4) for p in net.parameters()])
