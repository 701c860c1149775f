import torch


@torch.compile
def relax(ids):
    """Which entries are roots of their chain: pointers jump until nothing changes."""
    label = ids

    def step(label, done):
        new = torch.minimum(label, label[label])
        # A fixed point.
        done = (new == label).all()
        label = torch.where(done, label, new)
        return label, done

    label, _ = torch.while_loop(
        lambda label, done: torch.logical_not(done),
        step,
        (label, torch.tensor(False, device=label.device)),
    )
    return label == ids


print(relax(torch.tensor([0, 0, 1, 2, 3])))
print(relax(torch.tensor([0, 1, 2, 2, 1])))
