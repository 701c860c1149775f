import datetime
import re

import torch


@torch.compile
def f(x, day):
    return x + len(day.strftime(x))


@torch.compile
def g(x, pattern):
    return x + 1 if pattern.match(x) else x


print(g(torch.ones(2), re.compile("a")))
