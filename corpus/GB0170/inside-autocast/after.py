import torch


@torch.compile
def mixed(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = x @ w
        h = torch.cond(h.abs().max() > 10, lambda: h.tanh() @ w, lambda: h @ w)
    return h.float()


print(mixed(torch.rand(3, 3), torch.eye(3)), mixed(100 * torch.rand(3, 3), torch.eye(3)))
