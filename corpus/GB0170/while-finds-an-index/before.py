import torch


@torch.compile
def after(ids):
    i = 0
    while ids[i] != 2:
        i += 1
    return ids * i


print(after(torch.tensor([5, 3, 2])), after(torch.tensor([2, 3, 2])))
