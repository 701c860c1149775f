import torch


@torch.compile
def relax(x, target, weights, skip_last: bool):
    for i, weight in enumerate(weights):
        residual = target - x
        if residual.abs().max() < 0.1:
            break
        if skip_last and i == len(weights) - 1:
            x = x + 0.1 * residual
            continue
        x = x + weight * residual
    return x


start = torch.zeros(3)
for target in (torch.ones(3), 0.05 * torch.ones(3)):
    for skip_last in (True, False):
        print(relax(start, target, [0.5, 0.5, 0.25], skip_last))
