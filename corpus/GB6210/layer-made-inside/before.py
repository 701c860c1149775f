import torch
from torch._dynamo.decorators import leaf_function


@leaf_function
def run(layer, x):
    return (layer(x),)


@run.register_fake
def _(layer, x):
    return (layer(x),)


@torch.compile
def f(x):
    return run(torch.nn.ReLU(), x)[0]


print(f(torch.ones(2)))
