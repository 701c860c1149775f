import torch


class Lookup:
    def __call__(self, name):
        if name == "scale": return 2.0
        raise AttributeError(name)


class Net:
    __getattr__ = Lookup()

net = Net()


def f(x):
    net_scale = net.scale
    return f_after(x, net_scale)


@torch.compile
def f_after(x, net_scale):
    return x * net_scale


print(f(torch.ones(2)))
