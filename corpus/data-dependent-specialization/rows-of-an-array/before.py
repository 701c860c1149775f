import numpy as np
import torch


class Blend(torch.nn.Module):
    def forward(self, frames):
        out = frames[0]
        for step in np.arange(3):
            out = 0.5 * out + frames[step]
        return out


print(torch.compile(Blend())(torch.ones(3, 2)))
