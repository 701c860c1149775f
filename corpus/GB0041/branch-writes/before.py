import torch


@torch.compile
def f(x):
    def double(x):
        x.mul_(2)
        return x.clone()

    return torch.cond(x.sum() > 0, double, lambda x: x + 1, (x,))


print(f(torch.ones(2)))
