import struct

import torch


@torch.compile
def per_record(counts):
    return counts / struct.calcsize("<if")


print(per_record(torch.tensor([8.0, 16.0])))
print(per_record(torch.tensor([24.0, 0.0])))
