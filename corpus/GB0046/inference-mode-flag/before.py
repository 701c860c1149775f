import torch


@torch.compile
def f(x):
    if torch.is_inference_mode_enabled():
        return x * 2
    return x + 1


print(f(torch.ones(2)))
with torch.inference_mode():
    print(f(torch.ones(2)))
