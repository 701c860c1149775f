import torch


@torch.compile
def project(x, w):
    return torch.relu(torch.where(x.norm() > 1, x, x / 2) @ w)


print(project(torch.ones(2, 3), torch.eye(3)), project(torch.zeros(2, 3), torch.eye(3)))
