import torch


@torch.library.custom_op("before::cooled_op", mutates_args=())
def cooled_op(x: torch.Tensor) -> torch.Tensor:
    while x.norm() > 1:
        x = x / 2
        if x.max() < 0.3:
            return (x * 10).clone(memory_format=torch.contiguous_format)
    return x.clone(memory_format=torch.contiguous_format)


cooled_op.register_fake(lambda x: x.new_empty(x.shape))


@torch.compile
def cooled(x):
    return cooled_op(x)


print(cooled(torch.ones(3)), cooled(1000 * torch.ones(3)))
