"""Each row is cut at its length, has a name, and is pooled in one of two ways."""

import torch


@torch.compile(backend="aot_eager")
def pool(values, lengths, way="mean"):
    pooled = []
    for i in range(len(values)):
        row = values[i, : int(lengths[i])]
        if way == "last":
            pooled.append(row[-1])
        else:
            pooled.append(row.mean(0))
    return torch.stack(pooled)


torch.manual_seed(0)
for _ in range(2):
    values = torch.randn(3, 5, 2, requires_grad=True)
    result = pool(values, torch.randint(1, 6, (3,)))
    result.square().sum().backward()
    print("%.3f %.3f" % (result.sum().item(), values.grad.sum().item()))
