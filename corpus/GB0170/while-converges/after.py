import torch


@torch.compile
def eigenvalue(a, v):
    v = v / v.norm()
    change = torch.tensor(1.0)

    def step(change, v):
        new = a @ v
        new = new / new.norm()
        change = (new - v).norm()
        v = new
        return change, v.clone()

    runs = change > 1e-3
    first_v = v
    _, v = torch.while_loop(lambda change, v: change > 1e-3, step, (change, v))
    v = torch.where(runs, v, first_v)
    return v @ a @ v


print(eigenvalue(torch.diag(torch.tensor([3.0, 1.0])), torch.ones(2)))
