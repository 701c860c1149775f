import torch

torch._dynamo.config.graph_break_on_nn_param_ctor = False


@torch.compile
def f(x):
    return torch.nn.Linear(2, 2)(x.sin()).relu() * 2


torch.manual_seed(0)
print(f(torch.ones(1, 2)).shape)
