import torch


@torch.compile
def centred(x):
    total = x.sum()

    def if_total_above_0():
        a = x * 2
        b = a.mean()
        return a - b

    def otherwise():
        c = x.abs()
        return c + 1

    y = torch.cond(total > 0, if_total_above_0, otherwise)
    return y


print(centred(torch.ones(3)), centred(-torch.ones(3)))
