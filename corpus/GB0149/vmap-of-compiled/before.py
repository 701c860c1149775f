import torch


@torch.compile(backend="aot_eager")
def energy(x):
    return (x * x).sum()


print(torch.func.vmap(energy)(torch.arange(6.0).reshape(2, 3)))
