import torch
from torch.autograd import Variable


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.nn.Linear(3, 2)
        self.logvar = torch.nn.Linear(3, 2)

    def forward(self, x):
        mean, logvar = self.mean(x), self.logvar(x)
        std = logvar.mul(0.5).exp_()
        if torch.cuda.is_available():
            eps = torch.empty(std.size(), dtype=torch.float32, device="cuda").normal_()
        else:
            eps = torch.empty(std.size(), dtype=torch.float32).normal_()
        eps = eps.detach()
        return eps.mul(std).add_(mean)


torch.manual_seed(0)
encoder = torch.compile(Encoder())
loss = encoder(torch.randn(4, 3)).sum()
loss.backward()
print(loss)
