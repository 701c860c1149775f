import torch


@torch.compile
def profiled(x):
    with torch.profiler.profile() as profile:
        y = x.sin() + 1
    return y, profile


out, profile = profiled(torch.ones(3))
print(out)
