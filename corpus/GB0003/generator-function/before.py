import torch


@torch.compile
def chunks(x):
    for part in x.chunk(2):
        yield part * 2


for part in chunks(torch.arange(4.0)):
    print(part)
