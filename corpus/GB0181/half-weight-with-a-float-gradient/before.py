import torch


w = torch.ones(2, requires_grad=True)
(w * 2).sum().backward()
w.data = w.data.half()


@torch.compile
def f(x):
    return x * w


print(f(torch.ones(2)))
