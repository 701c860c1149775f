import torch


def f(x):
    if torch.is_inference_mode_enabled():
        return f_part_1(x)
    return f_part_2(x)


@torch.compile
def f_part_1(x):
    return x * 2


@torch.compile
def f_part_2(x):
    return x + 1


print(f(torch.ones(2)))
with torch.inference_mode():
    print(f(torch.ones(2)))
