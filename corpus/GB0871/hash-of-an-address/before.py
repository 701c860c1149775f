import torch


class Handle:
    def __init__(self, weight):
        self.weight = weight

    def __hash__(self):
        return self.weight.data_ptr()

    def __eq__(self, other):
        return self.weight is other.weight


@torch.compile
def f(x, handle):
    ranks = {handle: 2}
    return x.sin() * ranks[handle]


print(f(torch.ones(2), Handle(torch.ones(2))))
