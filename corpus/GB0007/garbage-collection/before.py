import gc

import torch


@torch.compile
def step(x, w):
    h = torch.relu(x @ w)
    gc.collect()
    return (h @ w.T).sum()


torch.manual_seed(0)
w = torch.randn(4, 8, requires_grad=True)
loss = step(torch.randn(2, 4), w)
loss.backward()
print(loss.item(), w.grad.norm().item())
