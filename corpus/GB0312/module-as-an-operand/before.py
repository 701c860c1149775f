import torch

layer = torch.nn.Linear(2, 2)


@torch.compile
def f(x):
    return torch.cond(x.sum() > 0, lambda x, m: m(x), lambda x, m: x - 1, (x, layer))


print(f(torch.ones(2)))
