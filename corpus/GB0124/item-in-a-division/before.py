import torch


@torch.compile
def normalize(x):
    total = x.exp().sum().item()
    return x.exp() / total


torch.manual_seed(0)
x = torch.randn(3, requires_grad=True)
y = normalize(x)
y.square().sum().backward()
print([round(value, 4) for value in x.grad.tolist()])
