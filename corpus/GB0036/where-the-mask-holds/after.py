import torch


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@torch.compile
def positive(x):
    return x[x > 0].sum()


print(positive(torch.tensor([1.0, -1.0, 2.0])))
