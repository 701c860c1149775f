import torch

torch._dynamo.config.debug_force_graph_break_on_leaf_return = True


def helper(x):
    return x * 2


@torch.compile
def f(x):
    return helper(x) + 1


print(f(torch.ones(2)))
