import torch


@torch.compile
def halve(x):
    steps = torch.zeros(())

    def step(x, steps):
        x = x * 0.5
        steps = steps + 1
        return x, steps

    runs = (x.abs() > 1).any() & (steps < 10)
    first_x = x
    first_steps = steps
    x, steps = torch.while_loop(
        lambda x, steps: (x.abs() > 1).any() & (steps < 10),
        step,
        (x, steps),
    )
    x = torch.where(runs, x, first_x)
    steps = torch.where(runs, steps, first_steps)
    return x, steps


print(halve(torch.tensor([3.0, 5.0])))
