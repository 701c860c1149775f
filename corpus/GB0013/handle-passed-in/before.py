import torch


@torch.compile
def f(x, handle):
    handle.remove()
    return x * 2


x = torch.ones(2, requires_grad=True)
handle = x.register_hook(lambda grad: grad * 3)
print(f(x, handle))
