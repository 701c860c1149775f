import torch

torch._dynamo.config.graph_break_on_nn_param_ctor = False


def f(x):
    linear_2_x_sin = torch.nn.Linear(2, 2)(x.sin())
    return f_after(linear_2_x_sin)


@torch.compile
def f_after(linear_2_x_sin):
    return linear_2_x_sin.relu() * 2


torch.manual_seed(0)
print(f(torch.ones(1, 2)).shape)
