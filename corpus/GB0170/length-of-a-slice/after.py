import torch

torch._dynamo.config.capture_scalar_outputs = True


@torch.compile
def top(x):
    k = torch.where(x.max() > 1, 2, 1).item()
    return x[:k] * 2


print(top(torch.ones(3)), top(3 * torch.ones(3)))
