import torch


@torch.library.custom_op("shop::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@thrice.register_fake
def _(x):
    raise NotImplementedError("later")


def f(x):
    thrice_x = thrice(x)
    return f_after(thrice_x)


@torch.compile
def f_after(thrice_x):
    return thrice_x + 1


print(f(torch.ones(2)))
