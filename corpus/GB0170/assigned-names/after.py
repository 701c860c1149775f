import torch


@torch.compile
def fn(x):
    offset = torch.zeros_like(x[0])

    def if_x_mean_above_0(x):
        offset = x.mean(0)
        x = torch.tanh(x - offset)
        return offset, x

    def otherwise(x):
        x = x.sigmoid()
        return offset.clone(), x

    offset, x = torch.cond(x.mean() > 0, if_x_mean_above_0, otherwise, (x,))
    return x * 2 + offset


torch.manual_seed(0)
x = torch.randn(4, 3)
for sign in (1, -1):
    print(fn(sign * x.abs()))
