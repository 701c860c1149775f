import torch


@torch.compile
def f(x):
    try:
        raise ValueError("odd")
    except (TypeError, 5):
        return x + 1


print(f(torch.ones(2)))
