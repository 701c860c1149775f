import collections

import torch


class Rows(collections.UserList):
    __len__ = list.__len__


class Sized:
    __len__ = (3).__index__


@torch.compile
def f(x, rows):
    return x * len(rows)


print(f(torch.ones(2), Sized()))
