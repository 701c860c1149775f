import torch


@torch.library.custom_op("before::print_f", mutates_args=())
def print_f(y: torch.Tensor) -> None:
    print("y:", y, y.sum())


print_f.register_fake(lambda y: None)
print_f.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def f(x):
    y = x * 2
    if y.requires_grad:
        print("y:", y, y.sum())
    else:
        print_f(y)
    return y + 1


print(f(torch.arange(3.0)))
print(f(torch.ones(3)))
