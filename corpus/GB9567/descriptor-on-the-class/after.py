import torch
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase


class Default:
    def __get__(self, instance, owner=None):
        return 3


class Settings(OpaqueBase):
    scale = Default()


register_opaque_type(Settings, typ="reference")


def f(x):
    settings_scale = Settings.scale
    return f_after(x, settings_scale)


@torch.compile
def f_after(x, settings_scale):
    return x * settings_scale


print(f(torch.ones(2)))
