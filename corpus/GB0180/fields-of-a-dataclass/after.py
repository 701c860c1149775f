import dataclasses

import torch
@dataclasses.dataclass
class A:
    x: int = 1
def f(x, a):
    n = len(dataclasses.fields(a)) + len(dataclasses.fields(A))
    return f_after(x, n)


@torch.compile
def f_after(x, n):
    return x + n
print(f(torch.ones(2), A()))
