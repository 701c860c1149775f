import torch

torch._dynamo.config.trace_numpy = False


def f(x):
    x_sin = f_before(x)
    float_x_mean = float(x.numpy().mean())
    return f_after(x_sin, float_x_mean)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(x_sin, float_x_mean):
    return x_sin - float_x_mean


print(f(torch.ones(2)))
