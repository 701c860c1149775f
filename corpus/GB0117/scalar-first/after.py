import torch


@torch.compile
def step(exp_avg, grad, beta):
    exp_avg.mul_(beta).add_(grad, alpha=1 - beta)
    return exp_avg * 2


print(step(torch.ones(3), torch.ones(3), 0.9))
