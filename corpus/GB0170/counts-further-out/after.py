import torch


@torch.compile
def clipped(tensors, limit: float):
    worst = torch.zeros(())

    def clip(x):
        nonlocal worst
        norm = x.norm()
        norm_above_limit = norm > limit
        worst = torch.where(norm_above_limit, torch.maximum(worst, norm), worst)
        return torch.where(norm_above_limit, x * (limit / torch.where(norm_above_limit, norm, 1)), x)

    return [clip(x) for x in tensors], worst


with torch.no_grad():
    print(clipped([torch.ones(4), 0.1 * torch.ones(2)], 1.0), clipped([torch.zeros(4), torch.ones(2)], 2.0))
