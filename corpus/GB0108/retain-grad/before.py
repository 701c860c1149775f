import torch


@torch.compile
def f(x):
    y = x * 2
    y.retain_grad()
    return y.sum(), y


loss, y = f(torch.ones(2, requires_grad=True))
loss.backward()
print(y.grad)
