import torch


@torch.compile
def f(x):
    guard = torch.autograd._unsafe_preserve_version_counter(x)
    with guard:
        x.add_(1)
    return x * 2, guard


print(f(torch.ones(2))[0])
