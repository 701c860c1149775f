import torch


@torch.compile
def balance(cost, rounds: int = 5, tolerance: float = 1e-3):
    """Scales rows and columns in turns until little changes."""
    kernel = torch.exp(-cost)
    row = torch.ones(cost.shape[0])
    for _ in range(rounds):
        column = 1.0 / (kernel.T @ row)
        new = 1.0 / (kernel @ column)
        # Good enough.
        if (new - row).abs().max() < tolerance:
            break
        row = new
    return row[:, None] * kernel * column


print(balance(torch.tensor([[0.0, 1.0], [2.0, 0.5]])))
print(balance(torch.zeros(2, 2)))
