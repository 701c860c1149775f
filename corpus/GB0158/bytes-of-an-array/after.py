import torch


def f(x):
    x_2 = f_before(x)
    x_tobytes = x.numpy().tobytes()
    return x_2, x_tobytes


@torch.compile
def f_before(x):
    x_2 = x * 2
    return x_2


print(f(torch.ones(2)))
