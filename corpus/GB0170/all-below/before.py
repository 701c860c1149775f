import torch


@torch.compile
def product(xs):
    if all(x.norm() < 3 for x in xs):
        return xs[0] @ xs[1]
    return xs[0].exp() @ xs[1]


print(product([torch.ones(3), torch.ones(3)]), product([torch.ones(3), 9 * torch.ones(3)]))
