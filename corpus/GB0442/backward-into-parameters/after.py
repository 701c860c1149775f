import torch

torch._dynamo.config.trace_autograd_ops = True
model = torch.nn.Linear(2, 2)


@torch.compile
def f(x):
    loss = model(x).sum()
    loss.backward(inputs=list(model.parameters()))
    return loss.detach()


print(f(torch.ones(2)).shape, model.weight.grad)
