import torch


@torch.compile
@torch.no_grad()
def eigenvalue(a, v):
    v = v / v.norm()
    change = torch.ones(())
    while change > 1e-3:
        new = a @ v
        new = new / new.norm()
        change = (new - v).norm()
        v = new
    return v @ a @ v


print(eigenvalue(torch.diag(torch.tensor([3.0, 1.0])), torch.ones(2)))
print(eigenvalue(torch.diag(torch.tensor([3.0, 2.0])), torch.ones(2)))
