"""A search over numpy's view of a tensor, which holds the sums afterwards."""

import numpy as np
import torch


def best_path(scores):
    rows, columns = scores.shape
    for c in range(1, columns):
        for r in range(rows):
            best = scores[r, c - 1] if r == 0 else max(scores[r, c - 1], scores[r - 1, c - 1])
            scores[r, c] += best
    path = np.zeros(columns, dtype=np.int64)
    r = rows - 1
    for c in range(columns - 1, -1, -1):
        path[c] = r
        if r > 0 and c > 0 and scores[r - 1, c - 1] > scores[r, c - 1]:
            r -= 1
    return path


def best_path_op_plain(sums: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(best_path(sums.numpy())).clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("before::best_path_op", mutates_args=("sums",))
def best_path_op(sums: torch.Tensor) -> torch.Tensor:
    return best_path_op_plain(sums)


best_path_op.register_fake(lambda sums: torch.empty((sums.shape[1],), dtype=torch.int64))


@torch.compile
def align(text, sound):
    likely = text @ sound.T
    sums = likely.detach().clone()
    path = (best_path_op_plain(sums) if sums.requires_grad else best_path_op(sums))
    return likely.gather(0, path[None]).sum(), sums.amax(0)


torch.manual_seed(0)
text = torch.randn(3, 4, requires_grad=True)
value, sums = align(text, torch.randn(7, 4))
value.backward()
print(sums.shape)
