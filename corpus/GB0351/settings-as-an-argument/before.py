import torch
from torch._higher_order_ops.map import map as map_rows


class Settings:
    scale = 2


@torch.compile
def f(x, settings):
    return map_rows(lambda row, settings: row * settings.scale, x, settings)


print(f(torch.ones(2, 2), Settings()))
