import torch


@torch.compile
def f(x):
    def scaled():
        return x * factor

    y = scaled()
    factor = 2.0
    return y


print(f(torch.ones(2)))
