import functools

import torch


def scaled(factor, x):
    return x * factor


class Base(torch.nn.Module):
    scale = functools.partial(scaled, 2)


class Net(Base):
    def forward(self, x):
        super_scale = super().scale
        return self.forward_after(x, super_scale)

    @torch.compile
    def forward_after(self, x, super_scale):
        return super_scale(x.sin()) + 1


print(Net()(torch.ones(2)))
