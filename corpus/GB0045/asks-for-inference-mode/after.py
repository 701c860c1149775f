import torch


def keep(x):
    if x.is_inference():
        return keep_part_1(x)
    return keep_part_2(x)


@torch.compile
def keep_part_1(x):
    return x.clone()


@torch.compile
def keep_part_2(x):
    return x + 1


print(keep(torch.ones(2)))
