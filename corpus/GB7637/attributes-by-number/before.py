import torch


class Box:
    pass


@torch.compile
def f(x, box):
    box.__dict__ = dict(enumerate([2, 3]))
    return x + len(box.__dict__)


print(f(torch.ones(2), Box()))
