import torch


class Draft:
    pass


class Final:
    pass


def f(x, page):
    page.__class__ = Final
    return f_after(x)


@torch.compile
def f_after(x):
    return x + 1


page = Draft()
print(f(torch.ones(2), page), type(page).__name__)
