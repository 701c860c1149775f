import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True


@torch.library.custom_op("before::trimmed_op", mutates_args=())
def trimmed_op(x: torch.Tensor) -> torch.Tensor:
    while x.norm() > 1:
        x = x[:-1]
    return x.clone(memory_format=torch.contiguous_format)


@trimmed_op.register_fake
def _(x):
    size = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((size,))


@torch.compile
def trimmed(x):
    x = trimmed_op(x)
    return x.sum()


print(trimmed(torch.ones(3)), trimmed(0.1 * torch.ones(3)))
