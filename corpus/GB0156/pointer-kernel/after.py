import ctypes

import torch

libc = ctypes.CDLL(None)
libc.memmove.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


@torch.library.custom_op("before::duplicate", mutates_args=())
def duplicate(x: torch.Tensor) -> torch.Tensor:
    """A kernel that is handed pointers; this one copies."""
    out = torch.empty_like(x)
    libc.memmove(out.data_ptr(), x.data_ptr(), x.numel() * x.element_size())
    return out


duplicate.register_fake(lambda x: torch.empty_like(x))
duplicate.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def f(x):
    return duplicate(x * 2) + 1


print(f(torch.arange(9.0).reshape(3, 3)))
print(f(torch.ones(3, 3)))
