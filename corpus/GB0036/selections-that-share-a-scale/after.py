"""A scale that learns divides what is selected: zeros in its place would spoil its gradient."""

import torch


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@torch.compile(backend="aot_eager")
def spread(x, scale):
    large = x > 0.5
    chosen = x[large]
    return (chosen.log() * scale).sum()


torch.manual_seed(0)
scale = torch.tensor(2.0, requires_grad=True)
for _ in range(2):
    result = spread(torch.rand(6), scale)
    result.backward()
    print("%.3f %.3f" % (result.item(), scale.grad.item()))
