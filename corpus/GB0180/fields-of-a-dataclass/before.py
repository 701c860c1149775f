import dataclasses

import torch
@dataclasses.dataclass
class A:
    x: int = 1
@torch.compile
def f(x, a):
    n = len(dataclasses.fields(a)) + len(dataclasses.fields(A))
    return x + n
print(f(torch.ones(2), A()))
