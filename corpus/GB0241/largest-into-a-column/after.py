import torch


@torch.compile
def f(x, values, indices):
    for kept, new in zip([values, indices], torch.max(x, 0)):
        if kept.shape != new.shape:
            kept.resize_(new.shape)
        kept.copy_(new)
    return values * 2


values = torch.zeros(3, 2)[:, 0]
print(f(torch.ones(2, 3), values, torch.zeros(3, dtype=torch.int64)))
