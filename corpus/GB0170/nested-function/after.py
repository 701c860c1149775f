import torch


@torch.compile
def total(x):
    def limited(t):
        t_norm_above_1 = t.norm() > 1
        return torch.where(
            t_norm_above_1,
            t / torch.where(t_norm_above_1, t.norm(), 1),
            t * 2,
        )

    return limited(x + 1).sum()


print(total(torch.ones(3)), total(-torch.ones(3)))
