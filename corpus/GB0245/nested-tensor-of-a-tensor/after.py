import torch


def f(x):
    nested = torch.nested.nested_tensor(x, layout=torch.jagged)
    return f_after(nested)


@torch.compile
def f_after(nested):
    return nested * 2


print(f(torch.ones(2, 3)).size(0))
