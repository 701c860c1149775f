import torch


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(3, 3)
        self.b = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))

    def forward(self, x):
        if x.norm() > 1:
            h = self.a(x)
        else:
            h = self.b(x)
        return h


torch.manual_seed(0)
m = M()
c = torch.compile(m)
for x in (torch.ones(3), torch.zeros(3)):
    m.zero_grad()
    loss = c(x).sum()
    loss.backward()
    print(loss)
