import torch

unit = torch.jit.CompilationUnit("def shift(x):\n  return x + 1\n")
shift = unit.shift


@torch.compile
def f(x):
    return shift(x.sin()) * 2


print(f(torch.ones(2)))
