import torch


def median(xs):
    order = sorted([x.sum() for x in xs])
    return median_after(xs, order)


@torch.compile
def median_after(xs, order):
    return order[len(order) // 2] * xs[0]


print(
    median([torch.ones(3), 2 * torch.ones(3), torch.zeros(3)]),
    median([torch.ones(3), -2 * torch.ones(3), torch.zeros(3)]),
)
