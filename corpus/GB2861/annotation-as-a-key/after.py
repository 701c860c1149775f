import torch

SCALES = {list[int]: 2.0, list[float]: 0.5}


def f(x, kind):
    x_sin = f_before(x)
    scales_item = SCALES[kind]
    return f_after(x_sin, scales_item)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(x_sin, scales_item):
    return x_sin * scales_item


print(f(torch.ones(2), list[int]))
