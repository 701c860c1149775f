import torch


def f(x):
    y = f_before(x)
    y.retain_grad()
    return f_after(y)


@torch.compile
def f_before(x):
    y = x * 2
    return y


@torch.compile
def f_after(y):
    return y.sum(), y


loss, y = f(torch.ones(2, requires_grad=True))
loss.backward()
print(y.grad)
