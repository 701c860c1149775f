import torch


def parts(x, seen):
    for i in range(2):
        seen.append(i)
        yield x + i


@torch.compile
def f(x, seen):
    rows = parts(x, seen)
    first = next(rows)
    torch._higher_order_ops.print("first")
    return first + next(rows)


print(f(torch.ones(2), []))
