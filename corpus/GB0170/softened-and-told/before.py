import torch


@torch.compile
def softened(norm, limit):
    """A norm that grows slowly above its limit, told of where it does."""
    if norm > 2.0 * limit:
        print(f"norm {norm.item():.2f}, limit {limit.item():.2f}")
        norm = limit + torch.log1p(norm - limit)
    elif torch.isnan(norm):
        print("no norm: the limit is taken")
        norm = limit * 1.0
    return norm, torch.minimum(norm, limit * 2)


limit = torch.tensor(1.0)
for value in (0.9, 8.0, float("nan")):
    norm, limit = softened(torch.tensor(value), limit)
print(norm, limit)
