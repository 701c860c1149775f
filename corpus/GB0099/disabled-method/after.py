import torch


class Net(torch.nn.Module):
    def helper(self, x):
        return x * 2
    def forward(self, x):
        return self.helper(x) + 1
print(torch.compile(Net())(torch.ones(2)))
