import numpy as np
import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True

torch._dynamo.config.use_numpy_random_stream = True


@torch.library.custom_op("before::f_op", mutates_args=())
def f_op(anchor: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.random.uniform(size=2)).clone(memory_format=torch.contiguous_format)


@f_op.register_fake
def _(anchor):
    size = torch.library.get_ctx().new_dynamic_size()
    return torch.empty((size,), dtype=torch.float64)


f_op.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def f(x):
    return x + f_op(torch.empty(0))


np.random.seed(0)
print(f(torch.ones(2)))
