import torch


@torch.compile
def product(xs):
    if len(xs) == 0:
        return xs[0] @ xs[1]
    return torch.cond(
        torch.stack([x.norm() < 3 for x in xs]).all(),
        lambda: xs[0] @ xs[1],
        lambda: xs[0].exp() @ xs[1],
    )


print(product([torch.ones(3), torch.ones(3)]), product([torch.ones(3), 9 * torch.ones(3)]))
