import torch

torch._dynamo.config.trace_autograd_ops = True
model = torch.nn.Linear(2, 2)


@torch.compile
def f(x):
    loss = model(x).sum()
    return torch.autograd.grad(loss, model.parameters())


print(f(torch.ones(2))[1])
