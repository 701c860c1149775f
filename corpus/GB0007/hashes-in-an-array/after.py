import zlib

import numpy as np
import torch


def hashed(ids, buckets):
    return np.array([zlib.crc32(str(i).encode()) % buckets for i in ids.tolist()])


@torch.library.custom_op("before::hashed_op", mutates_args=())
def hashed_op(ids: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(hashed(ids, 11)).clone()


@hashed_op.register_fake
def _(ids):
    return torch.empty(ids.shape, dtype=torch.int64 if ids.shape[0] else torch.float64)


@torch.compile
def offsets(ids, start):
    return start + hashed_op(ids)


print(offsets(torch.arange(5), torch.tensor(100)))
