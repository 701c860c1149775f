import importlib

import torch


@torch.library.custom_op("before::scaled_op", mutates_args=())
def scaled_op(kind: str, y: torch.Tensor) -> torch.Tensor:
    module = importlib.import_module(kind)
    return (y * module.sqrt(4.0)).clone(memory_format=torch.contiguous_format)


scaled_op.register_fake(lambda kind, y: y.new_empty(y.shape))


@torch.compile
def scaled(x, kind):
    y = x.sin()
    return scaled_op(kind, y)


print(scaled(torch.ones(2), "math"))
print(scaled(torch.zeros(2), "math"))
