import torch


@torch.compile
def limit(x, kind):
    match kind:
        case "clip":
            x_norm_above_1 = x.norm() > 1
            x = torch.where(
                x_norm_above_1,
                x / torch.where(x_norm_above_1, x.norm(), 1),
                x * 2,
            )
        case _:
            x = x.exp()
    return x


print(
    limit(torch.ones(3), "clip"),
    limit(0.1 * torch.ones(3), "clip"),
    limit(0.1 * torch.ones(3), "a"),
)
