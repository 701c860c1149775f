import torch


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@torch.compile
def f(losses, padding):
    mask = (padding == 0).to(torch.uint8)
    return losses[mask.bool() if mask.dtype == torch.uint8 else mask].sum()


print(f(torch.arange(4.0), torch.tensor([0, 0, 1, 2])))
