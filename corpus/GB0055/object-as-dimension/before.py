import torch


class Axis:
    def __init__(self, index):
        self.index = index

    def __index__(self):
        return self.index


@torch.compile
def f(x, axis):
    return torch.sum(x, dim=axis)


print(f(torch.ones(2, 3), Axis(1)))
