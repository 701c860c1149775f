import torch


def f(x, out):
    torch.add(x, 1, out=out)
    return f_after(out)


@torch.compile
def f_after(out):
    return out * 2


print(f(torch.ones(2, 3), torch.empty(0)))
