import torch


@torch.library.custom_op("before::print_f", mutates_args=())
def print_f(x: torch.Tensor) -> None:
    print("mean " + f"{x.mean()}" + "!")


print_f.register_fake(lambda x: None)
print_f.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def f(x):
    print_f(x)
    return x * 2


for i in range(3):
    print(f(torch.ones(2) * i))
