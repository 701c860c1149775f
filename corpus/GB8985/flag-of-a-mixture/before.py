import torch
import torch.nn as nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, real, fake):
        between = 0.25 * real + 0.75 * fake
        between.requires_grad_(True)
        return self.score(between).mean() + 0.1 * between.square().mean()


torch.manual_seed(0)
critic = Critic()
loss = torch.compile(critic)(torch.randn(3, 4), torch.randn(3, 4))
loss.backward()
print(loss.detach(), critic.score[0].bias.grad)
