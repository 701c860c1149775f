import torch
from torch._library.opaque_object import MemberType, register_opaque_type
from torch._opaque_base import OpaqueBase


class Settings(OpaqueBase):
    def __init__(self, scale):
        self.values = scale

    def __getattr__(self, name):
        raise AttributeError(name)

    def scale(self):
        return self.values


register_opaque_type(
    Settings,
    typ="reference",
    guard_fn=lambda settings: [settings.values],
    members={"scale": MemberType.USE_REAL},
)


@torch.compile
def f(x, settings):
    return x * settings.scale()


print(f(torch.ones(2), Settings(3)))
