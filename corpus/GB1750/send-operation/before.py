import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)


@torch.compile
def f(x):
    x = x + 1
    send = dist.P2POp(dist.isend, x, 1)
    return x * 2, send.peer


print(f(torch.ones(2)))
dist.destroy_process_group()
