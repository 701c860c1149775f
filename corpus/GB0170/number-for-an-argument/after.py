import torch
import torch.nn.functional as F

torch._dynamo.config.capture_scalar_outputs = True


@torch.compile
def activate(x):
    return F.leaky_relu(
        x,
        negative_slope=torch.where(x.mean() > 0, torch.full((), 0.1, dtype=torch.float64), torch.full((), 0.2, dtype=torch.float64)).item(),
    )


print(activate(torch.ones(2, 3)), activate(-torch.ones(2, 3)))
