import hooks
import torch


@torch.compile
def forward(x):
    y = x * 2
    hooks.watch(y)
    return y.sum()


x = torch.ones(3, requires_grad=True)
forward(x).backward()
print(x.grad)
