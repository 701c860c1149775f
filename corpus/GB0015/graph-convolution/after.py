import torch
from torch import nn


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x, adjacency):
        first_x = self.forward_part_1(x)
        mm_adjacency = torch.sparse.mm(adjacency, first_x)
        second_hidden = self.forward_part_2(mm_adjacency)
        mm_adjacency_1 = torch.sparse.mm(adjacency, second_hidden)
        return self.forward_part_3(mm_adjacency_1)

    @torch.compile
    def forward_part_1(self, x):
        first_x = self.first(x)
        return first_x

    @torch.compile
    def forward_part_2(self, mm_adjacency):
        hidden = mm_adjacency.relu()
        second_hidden = self.second(hidden)
        return second_hidden

    @torch.compile
    def forward_part_3(self, mm_adjacency_1):
        return mm_adjacency_1.log_softmax(-1)


torch.manual_seed(0)
net = GCN()
out = net(torch.randn(3, 4), torch.eye(3).to_sparse())
out.sum().backward()
print(out.shape)
