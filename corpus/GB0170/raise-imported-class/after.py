import torch
from errors import BadBatch


@torch.library.custom_op("before::check_fn", mutates_args=())
def check_fn(x: torch.Tensor) -> None:
    if torch.isnan(x).any():
        raise BadBatch("x has NaN")


check_fn.register_fake(lambda x: None)
check_fn.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def fn(x):
    check_fn(x)
    return x.sqrt()


print(fn(torch.ones(3)))
