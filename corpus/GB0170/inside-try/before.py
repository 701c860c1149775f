import torch


@torch.compile
def limit(x, cfg):
    try:
        scale = cfg["scale"]
        if x.norm() > scale:
            x = x / x.norm()
        else:
            x = x * 2
    except KeyError:
        x = x * 2
    return x


print(limit(torch.ones(3), {"scale": 1.0}), limit(torch.ones(3) / 10, {"scale": 1.0}))
