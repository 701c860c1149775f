import threading

import torch

lock = threading.Lock()
total = []


@torch.library.custom_op("before::f_op", mutates_args=())
def f_op(x: torch.Tensor) -> torch.Tensor:
    with lock:
        y = x * 2
    return y.clone(memory_format=torch.contiguous_format)


f_op.register_fake(lambda x: x.new_empty(x.shape))


@torch.compile
def f(x):
    y = f_op(x)
    return y + 1


print(f(torch.ones(2)))
