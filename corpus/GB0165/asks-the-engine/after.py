import torch


def f(x):
    torch.autograd.Variable._execution_engine.is_checkpoint_valid()
    return f_after(x)


@torch.compile
def f_after(x):
    return x * 2


print(f(torch.ones(2)))
