import torch


class Config:
    scale = 2.0


@torch._dynamo.nonstrict_trace
def scaled(x, config):
    return x * config.scale


def f(x, config):
    x_sin = f_before(x)
    scaled_x_sin = scaled(x_sin, config)
    return f_after(scaled_x_sin)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(scaled_x_sin):
    return scaled_x_sin + 1


print(f(torch.ones(2), Config()))
