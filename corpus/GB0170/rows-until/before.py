import torch


@torch.compile
def length(ids, end=2):
    """How many tokens stand before the end."""
    count = torch.zeros((), dtype=torch.int64)
    for token in ids:
        if token == end:
            break
        count = count + 1
    return count


print(length(torch.tensor([5, 3, 2, 4])))
print(length(torch.tensor([5, 3, 1, 4])))
