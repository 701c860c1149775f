import torch


@torch.library.custom_op("before::print_softened", mutates_args=())
def print_softened(norm: torch.Tensor, limit: torch.Tensor) -> None:
    if norm > 2.0 * limit:
        print(f"norm {norm.item():.2f}, limit {limit.item():.2f}")
    elif torch.isnan(norm):
        print("no norm: the limit is taken")


print_softened.register_fake(lambda norm, limit: None)
print_softened.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def softened(norm, limit):
    """A norm that grows slowly above its limit, told of where it does."""
    print_softened(norm, limit)
    norm = torch.cond(
        norm > 2.0 * limit,
        lambda: limit + torch.log1p(norm - limit),
        lambda: torch.cond(torch.isnan(norm), lambda: limit * 1.0, lambda: norm.clone()),
    )
    return norm, torch.minimum(norm, limit * 2)


limit = torch.tensor(1.0)
for value in (0.9, 8.0, float("nan")):
    norm, limit = softened(torch.tensor(value), limit)
print(norm, limit)
