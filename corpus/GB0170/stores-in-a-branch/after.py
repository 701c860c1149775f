import torch


@torch.compile
def clipped(x):
    x = x * 2

    def if_x_sum_above_4(x):
        x = x.clone()
        x[x > 1] = 0
        x[0] = 5
        return x

    def otherwise(x):
        return x.clone()

    x = torch.cond(x.sum() > 4, if_x_sum_above_4, otherwise, (x,))
    return x


print(clipped(torch.ones(3)), clipped(-torch.ones(3)))
