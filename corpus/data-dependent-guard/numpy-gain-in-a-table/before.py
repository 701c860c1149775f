import numpy as np
import torch

GAINS = {"linear": 1, "relu": np.sqrt(2)}


def scaled(x, gain):
    gain = float(gain)
    if gain != 1:
        x = x * gain
    return x


class Dense(torch.nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.gain = GAINS[kind]

    def forward(self, x, strength=1):
        return scaled(torch.relu(self.linear(x)), gain=self.gain * strength)


torch.manual_seed(0)
dense = torch.compile(Dense(4, "relu"))
print(dense(torch.ones(2, 4)).sum())
print(dense(-torch.ones(2, 4)).sum())
