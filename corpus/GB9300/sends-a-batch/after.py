import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
sends = [dist.P2POp(dist.isend, torch.ones(2), 1)]


def f(x):
    x = f_before(x)
    for work in dist.batch_isend_irecv(sends):
        work.wait()
    return f_after(x)


@torch.compile
def f_before(x):
    x = x + 1
    return x


@torch.compile
def f_after(x):
    return x * 2


print(f(torch.ones(2)))
dist.destroy_process_group()
