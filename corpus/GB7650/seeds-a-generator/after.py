import torch


def f(x, generator):
    generator.manual_seed(3)
    return f_after(x)


@torch.compile
def f_after(x):
    return x + 1


print(f(torch.ones(2), torch.Generator()))
