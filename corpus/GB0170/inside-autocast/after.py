import torch


@torch.compile
def mixed(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = x @ w
        h = torch.where(h.abs().max() > 10, h.tanh() @ w, h @ w)
    return h.float()


print(mixed(torch.rand(3, 3), torch.eye(3)), mixed(100 * torch.rand(3, 3), torch.eye(3)))
