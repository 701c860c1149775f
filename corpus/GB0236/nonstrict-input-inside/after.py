import torch


class Config:
    scale = 2.0


def scaled(x, config):
    return x * config.scale


@torch.compile
def f(x, config):
    return scaled(x.sin(), config) + 1


print(f(torch.ones(2), Config()))
