import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def summed(x):
    work, y = summed_before(x)
    work.wait()
    return summed_after(x, y)


@torch.compile
def summed_before(x):
    work = dist.all_reduce(x, async_op=True)
    y = torch.arange(3.0) * 2
    return work, y


@torch.compile
def summed_after(x, y):
    return x + y


print(summed(torch.ones(3)))
dist.destroy_process_group()
