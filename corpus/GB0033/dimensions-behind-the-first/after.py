import torch


@torch.compile
def normed(x, eps=1e-8):
    dims = list(range(1, len(x.shape)))
    mean = x.mean(dim=dims, keepdim=True)
    return (x - mean) / (x.var(dim=dims, keepdim=True) + eps).sqrt()


torch.manual_seed(0)
print(normed(torch.randn(2, 3, 4)).abs().sum())
