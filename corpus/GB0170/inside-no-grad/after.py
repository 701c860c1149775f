import torch


@torch.compile
def scaled(x, w):
    with torch.no_grad():
        scale = torch.where(x.abs().max() > 10, x.norm(), x.std() * 2)
    return x / scale @ w


print(scaled(torch.rand(3, 3), torch.eye(3)), scaled(100 * torch.rand(3, 3), torch.eye(3)))
