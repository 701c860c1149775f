import torch


class Box:
    pass


@torch.compile
def f(x, box):
    setattr(box, f"value{x.argmax()}", x)
    return x * 2


print(f(torch.ones(2), Box()))
