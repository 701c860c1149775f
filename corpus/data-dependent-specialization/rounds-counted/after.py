import torch


@torch.compile
def fill(ids, mask):
    n = mask.sum()

    def step(i, ids):
        ids = ids * 2 + i
        return i + 1, ids

    _, ids = torch.while_loop(
        lambda i, ids: i < n,
        step,
        (torch.tensor(0, device=ids.device), ids),
    )
    return ids + 1


print(fill(torch.arange(4), torch.tensor([True, False])))
print(fill(torch.arange(4), torch.tensor([True, True])))
