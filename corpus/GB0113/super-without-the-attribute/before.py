import torch


class Base:
    pass


class Net(Base):
    def forward(self, x):
        return super().forward(x)


net = Net()


@torch.compile
def f(x):
    return net.forward(x)


print(f(torch.ones(2)))
