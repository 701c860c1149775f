import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)

    def helper(self, x):
        return x * 2

    @torch.compile
    def forward(self, x):
        return self.helper(self.fc(x)).relu() + 1


torch.manual_seed(0)
print(Net()(torch.ones(2)))
