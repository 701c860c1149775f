import zlib

import numpy as np
import torch


def hashed(ids, buckets):
    return np.array([zlib.crc32(str(i).encode()) % buckets for i in ids.tolist()])


@torch.compile
def offsets(ids, start):
    return start + torch.from_numpy(hashed(ids, 11))


print(offsets(torch.arange(5), torch.tensor(100)))
