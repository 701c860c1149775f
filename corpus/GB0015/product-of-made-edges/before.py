import torch
from torch import nn


class Propagate(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.mix = nn.Linear(size, size)
        self.weigh = nn.Linear(2 * size, 1)

    def forward(self, x, edges):
        start, end = edges
        weights = torch.sigmoid(self.weigh(torch.cat([x[start], x[end]], dim=1))).squeeze(1)
        # Who hears from whom.
        adjacency = torch.sparse_coo_tensor(edges, weights, (x.shape[0], x.shape[0]))
        return torch.relu(self.mix(torch.sparse.mm(adjacency, x)))


torch.manual_seed(0)
net = Propagate(4)
step = torch.compile(net)
for nodes, many in ((5, 7), (6, 3)):
    out = step(torch.randn(nodes, 4), torch.randint(0, nodes, (2, many)))
    out.sum().backward()
    print(f"{out.sum().item():.4f} {net.weigh.weight.grad.sum().item():.4f}")
