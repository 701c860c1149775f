import torch


class Net(torch.nn.Module):
    def __init__(self):
        pass
    def go(self, x):
        return x * 2
net = Net()
@torch.compile
def f(x):
    return net.go(x)

print(f(torch.ones(2)))
