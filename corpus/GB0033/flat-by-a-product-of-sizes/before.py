import torch


@torch.compile
def f(x, weight):
    out = torch.einsum("bchw,cd->bdhw", x, weight)
    count = torch.prod(torch.tensor(out.shape[1:]))
    return out.reshape(out.shape[0], count)


print(f(torch.ones(2, 3, 4, 4), torch.ones(3, 5)).shape)
