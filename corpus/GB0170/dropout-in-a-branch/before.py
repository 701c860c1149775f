import torch


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(3, 3)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        h = self.a(x)
        if h.norm() > 1:
            h = self.drop(h)
        return h


torch.manual_seed(0)
m = M()
c = torch.compile(m)
for x in (torch.ones(3), torch.zeros(3)):
    loss = c(x).sum()
    loss.backward()
    print(loss)
