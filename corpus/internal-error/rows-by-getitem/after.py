import torch


class Rows:
    def __init__(self, x):
        self.x = x

    def __getitem__(self, index):
        return self.x[index]


@torch.library.custom_op("before::total_op", mutates_args=())
def total_op(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    for row in Rows(x):
        out = out + row
    return out.clone(memory_format=torch.contiguous_format)


@total_op.register_fake
def _(x, out):
    return out.new_empty(out.shape, dtype=torch.promote_types(out.dtype, x.dtype))


@torch.compile
def total(x):
    out = torch.zeros(3)
    out = total_op(x, out)
    return out


print(total(torch.ones(2, 3)))
