import torch


@torch.compile
def calm(x):
    hot = bool((x > 1).any())
    if hot:
        return x.clamp(max=1).exp()
    return x * 2


print(calm(torch.ones(3, 3)), calm(2 * torch.ones(3, 3)))
