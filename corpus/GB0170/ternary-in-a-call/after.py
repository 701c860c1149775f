import torch


@torch.compile
def project(x, w):
    return torch.relu(torch.cond(x.norm() > 1, lambda: x.clone(), lambda: x / 2) @ w)


print(project(torch.ones(2, 3), torch.eye(3)), project(torch.zeros(2, 3), torch.eye(3)))
