import torch
from torch import nn


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    @torch.compile
    def forward(self, x, adjacency):
        hidden = torch.sparse.mm(adjacency, self.first(x)).relu()
        return torch.sparse.mm(adjacency, self.second(hidden)).log_softmax(-1)


torch.manual_seed(0)
net = GCN()
out = net(torch.randn(3, 4), torch.eye(3).to_sparse())
out.sum().backward()
print(out.shape)
