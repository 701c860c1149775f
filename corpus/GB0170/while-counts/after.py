import torch


@torch.compile
def fit(x):
    """Halves until all of it fits, ten times at most."""
    rounds = 0

    def step(x, rounds):
        x = x / 2
        rounds = rounds + 1
        return x, rounds

    runs = (x.norm() > 1) & (rounds < 10)
    first_x = x
    x, _ = torch.while_loop(
        lambda x, rounds: (x.norm() > 1) & (rounds < 10),
        step,
        (x, torch.tensor(rounds, device=x.device)),
    )
    x = torch.where(runs, x, first_x)
    return x.sin()


for size in (0.1, 5.0):
    print(fit(size * torch.arange(4.0)))
