"""A batch that went too far is told of, and does not count."""

import warnings

import torch
from torch import nn


class Trainer:
    def __init__(self, policy, limit=3.0):
        self.policy, self.limit = policy, limit

    def loss(self, states, before, gains):
        ratio = (self.policy(states).squeeze(-1) - before).exp()
        loss = -(ratio * gains).mean()
        far = ratio.mean().item()
        if far > self.limit:
            warnings.warn(f"the mean ratio is {far:.2f}, above {self.limit:.2f}: batch left out")
            loss = loss * 0.0
        return loss


torch.manual_seed(0)
warnings.simplefilter("always")
trainer = Trainer(nn.Linear(3, 1))
compiled = torch.compile(trainer.loss)
for scale in (1.0, 8.0):
    loss = compiled(torch.ones(4, 3) * scale, torch.full((4,), -scale), torch.arange(4.0))
    loss.backward()
    print(round(loss.item(), 4))
