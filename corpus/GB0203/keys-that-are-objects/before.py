import torch


class Key:
    pass


@torch.compile
def f(x, keys):
    return x * len(keys)


print(f(torch.ones(2), {Key(): 1}.keys()))
