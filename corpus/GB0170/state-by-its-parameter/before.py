"""An optimizer of one's own, whose state has the parameters as keys."""

import torch


class Clipped:
    def __init__(self, params, rate=0.1):
        self.params = list(params)
        self.rate = rate
        self.state = {p: torch.zeros_like(p) for p in self.params}

    @torch.no_grad()
    def step(self, grads):
        for p, grad in zip(self.params, grads):
            kept = self.state[p]
            kept.mul_(0.9).add_(grad)
            if kept.norm() > 1.0:
                kept.div_(kept.norm())
            p.sub_(self.rate * kept)


torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
optimizer = Clipped(net.parameters())
step = torch.compile(optimizer.step)
for _ in range(3):
    loss = net(torch.randn(4, 3)).square().sum()
    step(list(torch.autograd.grad(loss, optimizer.params)))
print(net.weight)
