import torch

torch._dynamo.config.trace_autograd_ops = True


def f(x):
    weight, x_weight_sum = f_before(x)
    x_weight_sum.backward(inputs=[weight])
    return weight.grad


def f_before(x):
    ones_2 = torch.ones(2)
    weight = ones_2.requires_grad_()
    return f_before_after(x, weight)


@torch.compile
def f_before_after(x, weight):
    x_weight_sum = (x * weight).sum()
    return weight, x_weight_sum


print(f(torch.ones(2)))
