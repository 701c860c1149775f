import torch


class Result:
    def __init__(self, x):
        self.x = x


@torch._dynamo.nonstrict_trace
def wrapped(x):
    return Result(x * 2)


def f(x):
    wrapped_x_x = wrapped(x).x
    return f_after(wrapped_x_x)


@torch.compile
def f_after(wrapped_x_x):
    return wrapped_x_x + 1


print(f(torch.ones(2)))
