import torch


def step(exp_avg, grad, beta):
    exp_avg_mul = step_before(exp_avg, beta)
    exp_avg_mul.add_(1 - beta, grad)
    return step_after(exp_avg)


@torch.compile
def step_before(exp_avg, beta):
    exp_avg_mul = exp_avg.mul_(beta)
    return exp_avg_mul


@torch.compile
def step_after(exp_avg):
    return exp_avg * 2


print(step(torch.ones(3), torch.ones(3), 0.9))
