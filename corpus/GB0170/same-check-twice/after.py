import torch


@torch.library.custom_op("before::check_fn", mutates_args=())
def check_fn(x: torch.Tensor, message: str) -> None:
    if torch.isnan(x).any():
        raise ValueError(message)


check_fn.register_fake(lambda x, message: None)
check_fn.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def fn(x, y):
    check_fn(x, "x has NaN")
    check_fn(y, "y has NaN")
    return x.sqrt() + y


print(fn(torch.ones(3), torch.ones(3)))
try:
    fn(torch.ones(3), torch.full((3,), float("nan")))
except ValueError as error:
    print(error)
