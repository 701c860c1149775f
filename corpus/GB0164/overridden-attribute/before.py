import torch


class Metres(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})
    ndim = 7


@torch.compile
def f(x):
    return x * x.ndim


print(f(torch.ones(2).as_subclass(Metres)))
