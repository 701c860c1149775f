import torch


def f(x, handle):
    handle.remove()
    return f_after(x)


@torch.compile
def f_after(x):
    return x * 2


x = torch.ones(2, requires_grad=True)
handle = x.register_hook(lambda grad: grad * 3)
print(f(x, handle))
