import torch


@torch.library.custom_op("before::after_op", mutates_args=())
def after_op(ids: torch.Tensor, i: int) -> torch.Tensor:
    while ids[i] != 2:
        i += 1
    return (ids * i).clone(memory_format=torch.contiguous_format)


after_op.register_fake(lambda ids, i: ids.new_empty(ids.shape))


@torch.compile
def after(ids):
    i = 0
    return after_op(ids, i)


print(after(torch.tensor([5, 3, 2])), after(torch.tensor([2, 3, 2])))
