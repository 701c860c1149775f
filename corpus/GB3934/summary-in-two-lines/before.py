import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        hidden = self.layer(x)
        summary = "mean {:.3f}".format(hidden.mean())
        summary += ", largest {:.3f}".format(hidden.max())
        print(summary)
        return hidden * 2


torch.manual_seed(0)
out = torch.compile(Net())(torch.randn(2, 3))
out.sum().backward()
