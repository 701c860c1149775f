import functools

import torch


def scaled(factor, x):
    return x * factor


class Base(torch.nn.Module):
    scale = functools.partial(scaled, 2)


class Net(Base):
    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        super_scale = super().scale
        return self.forward_after(x, super_scale)

    def forward_after(self, x, super_scale):
        return super_scale(x)


print(torch.compile(Net())(torch.ones(2)))
