import torch


@torch.compile
def f(x):
    try:
        raise ValueError("odd")
    except 5:
        return x
    


print(f(torch.ones(2)))
