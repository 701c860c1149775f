import torch


@torch.compile
def limit(x, cfg):
    try:
        scale = cfg["scale"]
        x = torch.cond(x.norm() > scale, lambda: x / x.norm(), lambda: x * 2)
    except KeyError:
        x = x * 2
    return x


print(limit(torch.ones(3), {"scale": 1.0}), limit(torch.ones(3) / 10, {"scale": 1.0}))
