import torch
from torch.backends.cuda import SDPAParams


@torch.compile
def f(q, params):
    try:
        return q * params.scale
    except AttributeError:
        return q + 1


q = torch.ones(1, 1, 2, 2)
print(f(q, SDPAParams(q, q, q, None, 0.0, False, False)))
