import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


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
net = Net()
fully_shard(net, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
net = torch.compile(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(4, 4)).pow(2).mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
print(loss)
dist.destroy_process_group()
