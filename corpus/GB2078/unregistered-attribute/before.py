import torch
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase


class Settings(OpaqueBase):
    def __init__(self, scale):
        self.scale = scale


register_opaque_type(Settings, typ="reference")


@torch.compile
def f(x, settings):
    return x * settings.scale


print(f(torch.ones(2), Settings(3)))
