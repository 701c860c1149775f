import torch


@torch.compile
def clipped(steps):
    """Halves all steps where one of them is too long."""
    if len(steps) > 0:
        return torch.cond(
            torch.stack([(step.abs() > 4).any() for step in steps]).any(),
            lambda: [step.clamp(-4, 4) / 2 for step in steps],
            lambda: [step + 0 for step in steps],
        )
    return [step + 0 for step in steps]


short = [torch.ones(2), torch.arange(3.0)]
print(clipped(short))
print(clipped([5 * step for step in short]))
