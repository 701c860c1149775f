import torch


def solved(curve, b, steps=6, enough=1e-9):
    """Steps of a descent along a curve that the caller describes, until little is left."""
    x = torch.zeros_like(b)
    rest = b
    done = torch.tensor(False, device=x.device)
    for _ in range(steps):
        bent = curve(torch.where(done, 1, rest))
        x = torch.where(done, x, x + rest * 0.1)
        rest = torch.where(done, rest, rest - bent * 0.1)
        left = torch.dot(rest, rest)
        done = done | (left < enough)
    return x


@torch.compile
def direction(rows, b, ease):
    def curve(v):
        return rows.t() @ (rows @ v) / rows.shape[0] + ease * v

    return solved(curve, b)


torch.manual_seed(0)
for scale in (1.0, 1e-4):
    print(f"{direction(torch.randn(8, 3), torch.randn(3) * scale, 0.2).norm().item():.6f}")
