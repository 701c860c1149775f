import torch


@torch.compile
def f(x, kind):
    assert kind == "relu"
    return x.relu()


print(f(torch.ones(2), "gelu"))
