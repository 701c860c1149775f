import zlib

import numpy as np
import torch


@torch.library.custom_op("before::hashed_op", mutates_args=())
def hashed_op(buckets: int, ids: torch.Tensor) -> torch.Tensor:
    return torch.tensor(np.array([zlib.crc32(str(i).encode()) % buckets for i in ids.tolist()]))


@hashed_op.register_fake
def _(buckets, ids):
    return torch.empty(ids.shape, dtype=torch.int64 if ids.shape[0] else torch.float64)


def hashed(ids, buckets):
    return hashed_op(buckets, ids).numpy()


@torch.compile
def offsets(ids, start):
    return start + torch.from_numpy(hashed(ids, 11))


print(offsets(torch.arange(5), torch.tensor(100)))
