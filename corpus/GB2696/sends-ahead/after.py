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
    work_wait = work.wait()
    return f_after_after(x, work_wait)


@torch.compile
def f_after_after(x, work_wait):
    y = x * 2
    work_wait
    return y


print(f(torch.ones(2)))
dist.destroy_process_group()
