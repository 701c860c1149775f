from datetime import datetime

import torch


def f(x, start, end):
    x_1 = f_before(x)
    end_start_total_seconds = (end - start).total_seconds()
    return f_after(x_1, end_start_total_seconds)


@torch.compile
def f_before(x):
    x_1 = (x + 1)
    return x_1


@torch.compile
def f_after(x_1, end_start_total_seconds):
    return x_1 * end_start_total_seconds


print(f(torch.ones(2), datetime(2020, 1, 1), datetime(2020, 1, 2)))
