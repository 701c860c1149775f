import torch


@torch._dynamo.config.patch(trace_autograd_ops=True)
@torch.compile
def saliency(weight, x):
    point = x.detach().clone()
    point.requires_grad = True
    score = (point @ weight).sigmoid().sum()
    (gradient,) = torch.autograd.grad(score, point)
    return gradient.abs() * 2


print(saliency(torch.ones(3, 2), torch.ones(4, 3)))
