import torch


@torch.compile
def balance(cost, rounds: int = 5, tolerance: float = 1e-3):
    """Scales rows and columns in turns until little changes."""
    kernel = torch.exp(-cost)
    row = torch.ones(cost.shape[0])
    column = None
    done = torch.tensor(False, device=row.device)
    for _ in range(rounds):
        new_column = 1.0 / torch.where(done, 1, kernel.T @ row)
        column = new_column if column is None else torch.where(done, column, new_column)
        new = 1.0 / torch.where(done, 1, kernel @ column)
        # Good enough.
        done = done | ((new - row).abs().max() < tolerance)
        row = torch.where(done, row, new)
    return row[:, None] * kernel * column


print(balance(torch.tensor([[0.0, 1.0], [2.0, 0.5]])))
print(balance(torch.zeros(2, 2)))
