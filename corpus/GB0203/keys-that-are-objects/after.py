import torch


class Key:
    pass


def f(x, keys):
    len_keys = len(keys)
    return f_after(x, len_keys)


@torch.compile
def f_after(x, len_keys):
    return x * len_keys


print(f(torch.ones(2), {Key(): 1}.keys()))
