import torch


@torch._dynamo.config.patch(graph_break_on_nn_param_ctor=False)
@torch.compile
def scaled(x):
    scale = torch.nn.Parameter(torch.full((3,), 0.5))
    return x * scale


print(scaled(torch.arange(3.0)).detach())
