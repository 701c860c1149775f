import torch
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase


class Settings(OpaqueBase):
    pass


register_opaque_type(Settings, typ="reference")


@torch.compile
def f(x):
    try:
        return x * Settings.scale
    except AttributeError:
        return x + 1


print(f(torch.ones(2)))
