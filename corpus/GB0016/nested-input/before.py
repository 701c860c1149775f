import torch


@torch.compile
def f(x):
    return x * 2


sentences = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
print(f(sentences).size(0))
