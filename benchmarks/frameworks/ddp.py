import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x):
        out = self.layer(x)
        if out.mean() > 0:
            out = out * 2
        return out


dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.compile(DistributedDataParallel(Net()))
for _ in range(2):
    net(torch.randn(4, 4)).sum().backward()
dist.destroy_process_group()
