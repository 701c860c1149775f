import torch


@torch.compile
def limit(x, kind):
    match kind:
        case "clip":
            if x.norm() > 1:
                x = x / x.norm()
            else:
                x = x * 2
        case _:
            x = x.exp()
    return x


print(
    limit(torch.ones(3), "clip"),
    limit(0.1 * torch.ones(3), "clip"),
    limit(0.1 * torch.ones(3), "a"),
)
