import torch

torch._dynamo.config.graph_break_on_nn_param_ctor = False


def f(x):
    x_2 = f_before(x)
    weight = torch.nn.Parameter(x_2)
    return f_after(weight)


@torch.compile(dynamic=True)
def f_before(x):
    x_2 = x * 2
    return x_2


@torch.compile(dynamic=True)
def f_after(weight):
    return weight.sum()


print(f(torch.ones(5)))
