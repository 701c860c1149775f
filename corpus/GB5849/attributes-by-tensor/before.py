import torch


class Box:
    pass


@torch.compile
def f(x, box):
    box.__dict__ = {x: 1}
    return x + len(box.__dict__)


print(f(torch.ones(2), Box()))
