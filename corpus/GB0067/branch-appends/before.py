import torch


seen = []


@torch.compile
def f(x):
    def double(x):
        seen.append("double")
        return x * 2

    return torch.cond(x.sum() > 0, double, lambda x: x + 1, (x,))


print(f(torch.ones(2)))
