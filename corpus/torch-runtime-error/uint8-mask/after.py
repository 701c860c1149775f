import torch


@torch.compile
def f(losses, padding):
    mask = (padding == 0).to(torch.uint8).bool()
    return torch.where(mask, losses, 0).sum()


print(f(torch.arange(4.0), torch.tensor([0, 0, 1, 2])))
