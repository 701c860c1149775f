import torch


def show(*values):
    print(*values)


torch._dynamo.config.reorderable_logging_functions.add(show)


class Odd:
    pass


@torch.compile
def f(x, odd):
    show(odd)
    return x + 1


print(f(torch.ones(2), Odd()))
