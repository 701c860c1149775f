import torch
from errors import BadBatch


@torch.library.custom_op("before::fn_op", mutates_args=())
def fn_op(x: torch.Tensor) -> None:
    if torch.isnan(x).any():
        raise BadBatch("x has NaN")


fn_op.register_fake(lambda x: None)


fn_op.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def fn(x):
    fn_op(x)
    return x.sqrt()


print(fn(torch.ones(3)))
