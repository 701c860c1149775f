import numpy as np
import torch


@torch.library.custom_op("before::setdiff1d_op", mutates_args=())
def setdiff1d_op(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.setdiff1d(x.numpy(), seen.numpy()))


setdiff1d_op.register_fake(
    lambda x, seen: x.new_empty((torch.library.get_ctx().new_dynamic_size(),))
)


@torch.compile(fullgraph=True)
def f(x, seen):
    y = setdiff1d_op(x, seen)
    return y * 2


for n in (3, 4, 6):
    print(f(torch.arange(n), torch.tensor([1, n])))
