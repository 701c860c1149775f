import random

import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.layer = torch.nn.Linear(4, 4)
        self.drop = 0.5

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        training_and_random_random_below = self.training and random.random() < self.drop
        return self.forward_after(x, training_and_random_random_below)

    def forward_after(self, x, training_and_random_random_below):
        x = self.norm(x)
        if training_and_random_random_below:
            return x
        return x + self.layer(x)


random.seed(0)
torch.manual_seed(0)
block = torch.compile(Block())
for step in range(2):
    print(block(torch.arange(4.0)).sum())
