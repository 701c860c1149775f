"""A forward hook counts by powers of ten, in an object that the hook's maker knows."""

import math

import torch
from torch import nn


class Scales:
    def __init__(self, net):
        self.seen = {}
        for name, layer in net.named_children():
            self.seen[name] = {}
            layer.register_forward_hook(self.watch(name))

    def watch(self, name):
        def hook(layer, given, result):
            largest = result.detach().abs().max().item()
            if largest == 0:
                key = "none"
            else:
                key = math.floor(math.log10(largest))
            self.seen[name][key] = self.seen[name].get(key, 0) + 1

        return hook


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
scales = Scales(net)
compiled = torch.compile(net)
for factor in (1.0, 50.0):
    compiled(factor * torch.randn(3, 4)).sum().backward()
print(scales.seen)
