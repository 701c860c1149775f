import torch


@torch.compile
def f(x, generator):
    generator.manual_seed(3)
    return x + 1


print(f(torch.ones(2), torch.Generator()))
