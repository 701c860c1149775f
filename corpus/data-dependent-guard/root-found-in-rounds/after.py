"""Roots of an equation, found by rounds that end when they are near; a gradient goes through."""

import torch
from torch import nn


def root(a):
    x = torch.ones_like(a)
    while True:
        new = x - (x**3 + a * x - 1) / (3 * x**2 + a)
        if (new - x).abs().max().item() < 1e-3:
            return new
        x = new


def root_op_plain(exp: torch.Tensor) -> torch.Tensor:
    return root(exp).clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("before::root_op", mutates_args=())
def root_op(exp: torch.Tensor) -> torch.Tensor:
    return root_op_plain(exp)


root_op.register_fake(lambda exp: exp.new_empty(exp.shape))


# The backward runs `root_op_plain` once more, and follows it.
@torch.library.custom_op("before::root_op_backward", mutates_args=())
def root_op_backward(grad: torch.Tensor, exp: torch.Tensor) -> torch.Tensor:
    _, pull = torch.func.vjp(root_op_plain, exp)
    return pull(grad)[0].clone(memory_format=torch.contiguous_format)


@root_op_backward.register_fake
def _(grad, exp):
    return torch.empty_like(exp, memory_format=torch.contiguous_format)


def root_op_keep(ctx, inputs, output):
    (exp,) = inputs
    ctx.save_for_backward(exp)


def root_op_pull(ctx, grad):
    (exp,) = ctx.saved_tensors
    return root_op_backward(grad, exp)


root_op.register_autograd(root_op_pull, setup_context=root_op_keep)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return (root_op_plain(self.fc(x).exp()) if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu") else root_op(self.fc(x).exp())).sum()


torch.manual_seed(0)
net = Net()
run = torch.compile(net)
for _ in range(2):
    run(torch.randn(5, 4)).backward()
print(net.fc.weight.grad.abs().sum() > 0)
