import torch


@torch.compile
def mixed(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = x @ w
        if h.abs().max() > 10:
            h = h.tanh() @ w
        else:
            h = h @ w
    return h.float()


print(mixed(torch.rand(3, 3), torch.eye(3)), mixed(100 * torch.rand(3, 3), torch.eye(3)))
