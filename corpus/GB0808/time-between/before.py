from datetime import datetime

import torch


@torch.compile
def f(x, start, end):
    return (x + 1) * (end - start).total_seconds()


print(f(torch.ones(2), datetime(2020, 1, 1), datetime(2020, 1, 2)))
