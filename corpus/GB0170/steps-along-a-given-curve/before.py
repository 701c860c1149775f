import torch


def solved(curve, b, steps=6, enough=1e-9):
    """Steps of a descent along a curve that the caller describes, until little is left."""
    x = torch.zeros_like(b)
    rest = b
    for _ in range(steps):
        bent = curve(rest)
        x = x + rest * 0.1
        rest = rest - bent * 0.1
        left = torch.dot(rest, rest)
        if left < enough:
            break
    return x


@torch.compile
def direction(rows, b, ease):
    def curve(v):
        return rows.t() @ (rows @ v) / rows.shape[0] + ease * v

    return solved(curve, b)


torch.manual_seed(0)
for scale in (1.0, 1e-4):
    print(f"{direction(torch.randn(8, 3), torch.randn(3) * scale, 0.2).norm().item():.6f}")
