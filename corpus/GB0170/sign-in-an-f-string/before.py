import torch


@torch.compile
def report(x):
    print(f"sign: {'plus' if x.sum() > 0 else 'minus'}")
    return x * 2


print(report(torch.ones(3)), report(-torch.ones(3)))
