import torch


@torch.compile
def f(x):
    nested = torch.nested.as_nested_tensor(x.detach().clone(), layout=torch.jagged)
    return nested * 2


print(f(torch.ones(2, 3)).size(0))
