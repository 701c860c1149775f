import numpy as np
import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True


@torch.library.custom_op("before::f_op", mutates_args=())
def f_op(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    return torch.tensor(np.setdiff1d(x.numpy(), seen.numpy()))


@f_op.register_fake
def _(x, seen):
    size = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((size,))


@torch.compile(fullgraph=True)
def f(x, seen):
    y = torch.from_numpy(f_op(x, seen).numpy())
    return y * 2


for n in (3, 4, 6):
    print(f(torch.arange(n), torch.tensor([1, n])))
