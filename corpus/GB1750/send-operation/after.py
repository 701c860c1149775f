import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)


def f(x):
    x = f_before(x)
    send = dist.P2POp(dist.isend, x, 1)
    return f_after(x, send)


@torch.compile
def f_before(x):
    x = x + 1
    return x


@torch.compile
def f_after(x, send):
    return x * 2, send.peer


print(f(torch.ones(2)))
dist.destroy_process_group()
