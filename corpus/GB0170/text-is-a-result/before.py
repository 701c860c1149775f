import torch


@torch.compile
def tagged(x):
    tag = f"sign: {'plus' if x.sum() > 0 else 'minus'}"
    return x * 2, tag


print(tagged(torch.ones(3)), tagged(-torch.ones(3)))
