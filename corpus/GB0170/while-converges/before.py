import torch


@torch.compile
def eigenvalue(a, v):
    v = v / v.norm()
    change = torch.tensor(1.0)
    while change > 1e-3:
        new = a @ v
        new = new / new.norm()
        change = (new - v).norm()
        v = new
    return v @ a @ v


print(eigenvalue(torch.diag(torch.tensor([3.0, 1.0])), torch.ones(2)))
