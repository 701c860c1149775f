import torch


@torch.compile
def limit(x, kind):
    match kind:
        case "clip":
            x = torch.cond(x.norm() > 1, lambda: x / x.norm(), lambda: x * 2)
        case _:
            x = x.exp()
    return x


print(
    limit(torch.ones(3), "clip"),
    limit(0.1 * torch.ones(3), "clip"),
    limit(0.1 * torch.ones(3), "a"),
)
