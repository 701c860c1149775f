import torch


def f(x):
    y = f_before(x)
    y.register_hook(lambda g: g if g.is_contiguous() else g.contiguous())
    return f_after(y)


@torch.compile
def f_before(x):
    y = x * 2
    return y


@torch.compile
def f_after(y):
    return y.sum()


x = torch.ones(2, requires_grad=True)
f(x).backward()
print(x.grad)
