import torch


@torch.compile
def pooled(x, flip: bool):
    x = torch.tanh(x)
    if flip:
        rows = torch.stack(
            [torch.where(row.sum() > 0, row, -row) for row in x],
        )
        return rows.mean(0)
    return x.mean(0)


x = torch.tensor([[1.0, 2.0], [-3.0, 1.0]])
print(pooled(x, False), pooled(x, True))
