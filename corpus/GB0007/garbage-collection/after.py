import gc

import torch


def step(x, w):
    h = step_before(x, w)
    gc.collect()
    return step_after(w, h)


@torch.compile
def step_before(x, w):
    h = torch.relu(x @ w)
    return h


@torch.compile
def step_after(w, h):
    return (h @ w.T).sum()


torch.manual_seed(0)
w = torch.randn(4, 8, requires_grad=True)
loss = step(torch.randn(2, 4), w)
loss.backward()
print(loss.item(), w.grad.norm().item())
