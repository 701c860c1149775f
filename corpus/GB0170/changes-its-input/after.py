import torch


@torch.compile
def spread(x):
    def if_x_max_above_1(x):
        x = x.clone()
        x -= x.mean()
        x /= x.std()
        return x

    def otherwise(x):
        return x.clone()

    x.copy_(torch.cond(x.max() > 1, if_x_max_above_1, otherwise, (x.clone(),)))
    return x.sum()


print(spread(torch.rand(2, 3)), spread(4 * torch.rand(2, 3)))
