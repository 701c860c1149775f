import torch


@torch.compile
def f(adjacency, x):
    return torch.sparse.mm(adjacency, x)


print(f(torch.eye(3).to_sparse(), torch.ones(3, 2)))
