import torch


class Watched(type):
    def __getattribute__(cls, name):
        return super().__getattribute__(name)


class Scale(metaclass=Watched):
    @classmethod
    def apply(cls, x):
        return x * 2


@torch.compile
def f(x, kind):
    return kind.apply(x.sin()) + 1


print(f(torch.ones(2), Scale))
