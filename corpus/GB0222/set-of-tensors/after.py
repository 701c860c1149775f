import torch


def f(x, masks):
    masks_list = list(masks)
    return f_after(x, masks_list)


@torch.compile
def f_after(x, masks_list):
    for mask in masks_list:
        x = x * mask
    return x


print(f(torch.ones(2), {torch.ones(2), torch.zeros(2)}))
