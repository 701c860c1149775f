"""Another bend for what is better than for what is worse."""

import torch


def bend(ratio, heat):
    return torch.sigmoid(heat * (ratio - 1)) / heat


@torch.compile
def loss_of(ratio, gain):
    better = gain > 0
    loss = torch.where(better, bend(ratio, 1.0), bend(ratio, 1.1))
    return -(loss * gain).mean()


torch.manual_seed(0)
ratio = torch.rand(4, 3, requires_grad=True)
loss = loss_of(ratio, torch.randn(4, 3))
loss.backward()
print(loss.detach(), ratio.grad.norm())
