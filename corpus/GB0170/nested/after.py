import torch


@torch.compile
def fn(x):
    def if_x_sum_above_0(x):
        x = torch.cond(x.max() > 2, lambda: x / x.norm(), lambda: x.clone())
        return x.cos()

    def otherwise(x):
        return x.clone()

    x = torch.cond(x.sum() > 0, if_x_sum_above_0, otherwise, (x,))
    return x.sum(0)


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1):
    print(fn(sign * x.abs()))
