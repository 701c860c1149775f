import torch


class Size:
    pass
@torch.compile
def f(x, s):
    return x * len(torch.nn.modules.utils._pair(s))


print(f(torch.ones(2), Size()))
