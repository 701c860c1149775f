import torch


@torch.compile
def route(x):
    outs = []
    for row in x:
        # The unlikely way.
        row_sum_above_0 = row.sum() > 0
        outs.append(
            torch.where(
                row_sum_above_0,
                row * 2,
                torch.where(row_sum_above_0, 1, row).exp(),
            ),
        )
    return torch.stack(outs)


print(route(torch.tensor([[1.0, 2.0], [-1.0, -2.0]])))
