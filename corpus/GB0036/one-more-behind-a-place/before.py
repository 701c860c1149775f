import torch


@torch.compile
def others(places, count):
    drawn = torch.randint(0, count - 1, (places.shape[0], 4))
    drawn[drawn >= places[:, None].expand(-1, 4)] += 1
    return drawn


torch.manual_seed(0)
print(others(torch.arange(5), 5))
