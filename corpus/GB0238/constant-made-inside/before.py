import torch.utils._pytree as pytree

import torch


class Config:
    def __init__(self, scale):
        self.scale = scale

    def __eq__(self, other):
        return self.scale == other.scale

    def __hash__(self):
        return hash(self.scale)


pytree.register_constant(Config)


@torch._dynamo.nonstrict_trace
def scaled(x, config):
    return x * config.scale


@torch.compile
def f(x):
    return scaled(x, Config(2.0))


print(f(torch.ones(2)))
