import torch
from torch import nn


def penalty(critic, real, fake):
    share = torch.rand(real.size(0), 1)
    mixed = (share * real + (1 - share) * fake).requires_grad_(True)
    score = critic(mixed)
    slope = torch.autograd.grad(
        outputs=score,
        inputs=mixed,
        grad_outputs=torch.ones_like(score),
        create_graph=True,
        retain_graph=True,
    )[0]
    return (slope.norm(2, dim=1) - 1).pow(2).mean()


critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


@torch.compile
def loss(real, fake):
    return critic(fake).mean() - critic(real).mean() + penalty(critic, real, fake)


torch.manual_seed(0)
loss(torch.randn(5, 3), torch.randn(5, 3)).backward()
