import torch


@torch.compiler.disable
def report(x):
    return x * 2


def f(x):
    x_sin = f_before(x)
    report_x_sin = report(x_sin)
    return f_after(report_x_sin)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(report_x_sin):
    return report_x_sin + 1


print(f(torch.ones(2)))
