import torch


@torch.compile
def halve(x):
    steps = torch.zeros(())

    def step(x, steps):
        x = x * 0.5
        steps = steps + 1
        return x, steps

    x, steps = torch.while_loop(
        lambda x, steps: (x.abs() > 1).any() & (steps < 10),
        step,
        (x, steps),
    )
    return x, steps


print(halve(torch.tensor([3.0, 5.0])))
