import torch


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


@torch.compile
def own(x):
    if x._base is not None:
        x = x.clone()
    return x * 2


print(own(torch.ones(3).as_subclass(Tagged)))
