import torch


@torch.compile
def f(x):
    y = x * 2
    y.register_hook(lambda g: g if g.is_contiguous() else g.contiguous())
    return y.sum()


x = torch.ones(2, requires_grad=True)
f(x).backward()
print(x.grad)
