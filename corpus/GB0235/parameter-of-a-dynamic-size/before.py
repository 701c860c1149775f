import torch

torch._dynamo.config.graph_break_on_nn_param_ctor = False


@torch.compile(dynamic=True)
def f(x):
    weight = torch.nn.Parameter(x * 2)
    return weight.sum()


print(f(torch.ones(5)))
