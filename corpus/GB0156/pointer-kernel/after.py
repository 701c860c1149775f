import ctypes

import torch

libc = ctypes.CDLL(None)
libc.memmove.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def duplicate(x):
    """A kernel that is handed pointers; this one copies."""
    out = torch.empty_like(x)
    libc.memmove(out.data_ptr(), x.data_ptr(), x.numel() * x.element_size())
    return out


@torch.library.custom_op("before::duplicate_op", mutates_args=())
def duplicate_op(value: torch.Tensor) -> torch.Tensor:
    return duplicate(value).clone(memory_format=torch.contiguous_format)


duplicate_op.register_fake(lambda value: value.new_empty(value.shape))


@torch.compile
def f(x):
    return duplicate_op(x * 2) + 1


print(f(torch.arange(9.0).reshape(3, 3)))
print(f(torch.ones(3, 3)))
