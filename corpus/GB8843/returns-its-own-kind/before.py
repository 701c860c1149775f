import torch
from torch._library.opaque_object import MemberType, register_opaque_type
from torch._opaque_base import OpaqueBase


class Settings(OpaqueBase):
    def __init__(self, scale):
        self.scale = scale

    def doubled(self):
        return Settings(self.scale * 2)


register_opaque_type(
    Settings,
    typ="reference",
    guard_fn=lambda settings: [settings.scale],
    members={"doubled": MemberType.USE_REAL, "scale": MemberType.USE_REAL},
)


@torch.compile
def f(x, settings):
    return x * settings.doubled().scale


print(f(torch.ones(2), Settings(3)))
