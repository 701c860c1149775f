import random

import torch
from torch import nn


class Jitter(nn.Module):
    def __init__(self, most):
        super().__init__()
        self.most = most

    def forward(self, image):
        down = random.randint(-self.most, self.most)
        right = random.randint(-self.most, self.most)
        return torch.roll(torch.roll(image, shifts=down, dims=2), shifts=right, dims=3) * 2


if __name__ == "__main__":
    random.seed(0)
    jitter = torch.compile(Jitter(3), backend="aot_eager")
    for _ in range(3):
        print(jitter(torch.arange(64.0).view(1, 1, 8, 8))[0, 0, 0])
    print(random.random())
