import torch


class Size:
    pass
def f(x, s):
    len_pair_s = len(torch.nn.modules.utils._pair(s))
    return f_after(x, len_pair_s)


@torch.compile
def f_after(x, len_pair_s):
    return x * len_pair_s


print(f(torch.ones(2), Size()))
