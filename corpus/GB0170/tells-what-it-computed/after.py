import torch


@torch.library.custom_op("before::print_clipped", mutates_args=())
def print_clipped(x: torch.Tensor) -> None:
    if x.abs().max() > 3:
        x = x.clamp(-3, 3)
        print("clipped:", int((x.abs() == 3).sum()))


print_clipped.register_fake(lambda x: None)
print_clipped.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def clipped(x):
    print_clipped(x)
    x = torch.where(x.abs().max() > 3, x.clamp(-3, 3), x)
    return x * 2


print(clipped(torch.tensor([1.0, 4.0, -5.0])), clipped(torch.ones(3)))
