import torch


@torch.compile
def project(x, w):
    return torch.relu((x if x.norm() > 1 else x / 2) @ w)


print(project(torch.ones(2, 3), torch.eye(3)), project(torch.zeros(2, 3), torch.eye(3)))
