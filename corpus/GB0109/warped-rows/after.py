import torch


def warp(a, b):
    """How far two series are apart, where time may be stretched."""
    best = [0.0] + [float("inf")] * len(b)
    for x in a:
        row = [float("inf")]
        for j, y in enumerate(b):
            row.append(abs(x - y) + min(best[j], best[j + 1], row[j]))
        best = row
    return best[-1]


@torch.library.custom_op("before::kernel_op", mutates_args=())
def kernel_op(series: torch.Tensor) -> torch.Tensor:
    rows = series.tolist()
    apart = torch.tensor([[warp(a, b) for b in rows] for a in rows])
    return apart


@kernel_op.register_fake
def _(series):
    return torch.empty(
        (series.shape[0], series.shape[0]) if series.shape[0] else (0,),
        dtype=torch.float32,
    )


@torch.compile
def kernel(series, scale):
    apart = kernel_op(series.detach())
    return torch.exp(-apart * scale)


print(kernel(torch.arange(12.0).reshape(3, 4) % 5, 0.5))
