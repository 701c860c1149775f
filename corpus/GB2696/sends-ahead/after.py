import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)


def f(x):
    x = f_before(x)
    work = dist.isend(x, dst=1)
    return f_after(x, work)


@torch.compile
def f_before(x):
    x = x + 1
    return x


def f_after(x, work):
    y = f_after_before(x)
    work.wait()
    return y


@torch.compile
def f_after_before(x):
    y = x * 2
    return y


print(f(torch.ones(2)))
dist.destroy_process_group()
