import torch


@torch.compile
def fill(ids, mask):
    n = mask.sum().item()
    for i in range(n):
        ids = ids * 2 + i
    return ids + 1


print(fill(torch.arange(4), torch.tensor([True, False])))
print(fill(torch.arange(4), torch.tensor([True, True])))
