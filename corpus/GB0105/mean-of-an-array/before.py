import torch

torch._dynamo.config.trace_numpy = False


@torch.compile
def f(x):
    return x.sin() - float(x.numpy().mean())


print(f(torch.ones(2)))
