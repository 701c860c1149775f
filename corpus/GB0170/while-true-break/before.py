import torch


@torch.compile
def relax(ids):
    """Which entries are roots of their chain: pointers jump until nothing changes."""
    label = ids
    while True:
        new = torch.minimum(label, label[label])
        # A fixed point.
        if (new == label).all():
            break
        label = new
    return label == ids


print(relax(torch.tensor([0, 0, 1, 2, 3])))
print(relax(torch.tensor([0, 1, 2, 2, 1])))
