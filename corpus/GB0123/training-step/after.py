import torch

weight = torch.ones(3, requires_grad=True)


@torch._dynamo.config.patch(trace_autograd_ops=True)
@torch.compile
def step(x):
    loss = (weight * x).square().sum()
    loss.backward()
    return loss.detach()


print(step(torch.arange(3.0)), weight.grad)
