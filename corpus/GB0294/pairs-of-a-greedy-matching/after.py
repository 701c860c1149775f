"""A loss over pairs that a greedy matching in numpy finds: as many rows as columns."""

import numpy as np
import torch
from torch import nn

torch._dynamo.config.capture_dynamic_output_shape_ops = True


@torch.library.custom_op("before::match_op", mutates_args=())
def match_op(cost: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    left = cost.detach().cpu().numpy().copy()
    rows, columns = [], []
    for _ in range(min(left.shape)):
        row, column = np.unravel_index(left.argmin(), left.shape)
        if left[row, column] > 3.0:
            break
        rows.append(row)
        columns.append(column)
        left[row, :] = np.inf
        left[:, column] = np.inf
    result_0 = torch.as_tensor(rows, dtype=torch.int64).clone(memory_format=torch.contiguous_format)
    result_1 = torch.as_tensor(columns, dtype=torch.int64).clone(memory_format=torch.contiguous_format)
    if result_0.shape[0] != result_1.shape[0]:
        raise RuntimeError("results of `match_op` differ in their sizes")
    return result_0, result_1


@match_op.register_fake
def _(cost):
    size = torch.library.get_ctx().new_dynamic_size()
    return (torch.empty((size,), dtype=torch.int64), torch.empty((size,), dtype=torch.int64))


def match(cost):
    part_0, part_1 = match_op(cost)
    return part_0, part_1


class Loss(nn.Module):
    def forward(self, found, wanted):
        rows, columns = match(torch.cdist(found, wanted))
        return (found[rows] - wanted[columns]).abs().sum() / found.shape[0]


loss = torch.compile(Loss(), backend="aot_eager")
for seed in range(3):
    torch.manual_seed(seed)
    found = torch.randn(5, 3, requires_grad=True)
    value = loss(found, torch.randn(4, 3))
    value.backward()
    print(f"{value.item():.4f} {found.grad.norm().item():.4f}")
