import torch


@torch.compile
def f(x, y):
    nested = torch.nested.nested_tensor([x, y], layout=torch.strided)
    return nested.sum()


print(f(torch.ones(2), torch.ones(3)))
