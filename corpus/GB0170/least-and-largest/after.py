import torch


@torch.compile
def spread(x, lo, hi):
    x_min_below_lo_x_max_above = (
        ((x.min() < lo) & (x.max() > hi)) | torch.isnan(x).any()
    )
    return torch.where(
        x_min_below_lo_x_max_above,
        x / torch.where(x_min_below_lo_x_max_above, x.abs().sum(), 1),
        torch.where(x_min_below_lo_x_max_above, 1, x).exp(),
    )


print(
    spread(torch.rand(3, 3), torch.tensor(0.1), torch.tensor(2.0)),
    spread(5 * torch.randn(3, 3), torch.tensor(0.1), torch.tensor(2.0)),
)
