import torch


def f(x):
    one, other = [1], [2]
    id_one_below_id_other = id(one) < id(other)
    return f_after(x, id_one_below_id_other)


@torch.compile
def f_after(x, id_one_below_id_other):
    return x + 1 if id_one_below_id_other else x + 1


print(f(torch.ones(2)))
