import functools

import torch
class S(str): pass
def g(x, a): return x * a
p = functools.partial(g, **{S("a"): 2})
@torch.compile
def f(x):
    return p(x)
print(f(torch.ones(2)))
