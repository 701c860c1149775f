import os

import torch


@torch.library.custom_op("before::save_f", mutates_args=())
def save_f(y: torch.Tensor) -> None:
    torch.save(y.detach(), "foo.pt")


save_f.register_fake(lambda y: None)
save_f.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def f(x):
    y = x**2 / 2
    save_f(y)
    z = y**3 / 6
    return z


print(f(torch.arange(3.0)))
print(torch.load("foo.pt"))
os.remove("foo.pt")
