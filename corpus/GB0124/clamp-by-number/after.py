import torch


@torch._dynamo.config.patch(capture_scalar_outputs=True)
@torch.compile
def f(x, low):
    return torch.clamp(x, low.item(), 5.0) * 2


print(f(torch.arange(8.0), torch.tensor(2.0)))
