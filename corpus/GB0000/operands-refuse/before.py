import torch


class Length(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.add, torch.Tensor.__add__, torch.add):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})


@torch.compile
def total(a, b):
    return torch.add(a, b)


print(total(torch.ones(2).as_subclass(Length), torch.ones(2)))
