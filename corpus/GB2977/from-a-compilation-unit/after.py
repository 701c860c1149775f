import torch

unit = torch.jit.CompilationUnit("def shift(x):\n  return x + 1\n")
shift = unit.shift


def f(x):
    x_sin = f_before(x)
    shift_x_sin = shift(x_sin)
    return f_after(shift_x_sin)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(shift_x_sin):
    return shift_x_sin * 2


print(f(torch.ones(2)))
