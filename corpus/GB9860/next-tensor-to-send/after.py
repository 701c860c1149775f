import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
send = dist.P2POp(dist.isend, torch.ones(2), 1)


def f(x):
    send.tensor = x + 1
    return f_after(x)


@torch.compile
def f_after(x):
    return x * 2


print(f(torch.ones(2)), send.tensor)
dist.destroy_process_group()
