import torch


def weighted(xs):
    n = sum(1 for x in xs if x.norm() > 1)
    return weighted_after(xs, n)


@torch.compile
def weighted_after(xs, n):
    return xs[0] * n


print(weighted([torch.ones(3), torch.ones(3)]), weighted([torch.ones(3), torch.zeros(3)]))
