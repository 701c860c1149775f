import torch


class Cache:
    def __init__(self):
        self.keys = torch.zeros(2, 8, 4)


@torch.compile
def decode(x, place, cache):
    start = place[0]
    torch._assert_async(start >= 0, "`start` is below zero")
    positions = start + torch.arange(x.shape[1], device=start.device)
    cache.keys[:, positions] = x * 2
    return cache.keys.sum(1)


torch.manual_seed(0)
print(decode(torch.randn(2, 3, 4), torch.tensor([1, 1]), Cache()).shape)
