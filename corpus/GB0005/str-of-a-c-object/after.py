import torch


class Celsius:
    __str__ = object.__repr__


unit = Celsius()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::f_op", mutates_args=())
def f_op(x: torch.Tensor) -> torch.Tensor:
    name = str(unit)
    return (x * len(name)).clone(memory_format=torch.contiguous_format)


f_op.register_fake(lambda x: x.new_empty(x.shape))


@torch.compile
def f(x):
    return f_op(x)


print(f(torch.ones(2)).shape)
