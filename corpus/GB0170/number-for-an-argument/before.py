import torch
import torch.nn.functional as F


@torch.compile
def activate(x):
    return F.leaky_relu(x, negative_slope=0.1 if x.mean() > 0 else 0.2)


print(activate(torch.ones(2, 3)), activate(-torch.ones(2, 3)))
