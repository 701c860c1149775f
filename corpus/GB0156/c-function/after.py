import ctypes

import torch

multiply = ctypes.pythonapi.PyNumber_Multiply
multiply.restype = ctypes.py_object
multiply.argtypes = [ctypes.py_object, ctypes.py_object]


@torch.library.custom_op("before::multiply_op", mutates_args=())
def multiply_op(x: torch.Tensor) -> torch.Tensor:
    return multiply(x, x)


multiply_op.register_fake(lambda x: torch.empty_like(x))
multiply_op.register_effect(torch.library.EffectType.ORDERED)


def square(x):
    return multiply_op(x)


@torch.compile
def f(x):
    return square(x)


print(f(torch.arange(9.0).reshape(3, 3)))
print(f(torch.ones(3, 3)))
