import torch


@torch.compile
def settle(x):

    def step(x):
        x = x * 0.5
        return (x,)

    runs = x.abs().max() > 1
    first_x = x
    (x,) = torch.while_loop(lambda x: x.abs().max() > 1, step, (x,))
    x = torch.where(runs, x, first_x)
    # The rest of it.
    x = x + 0.25
    return x


print(settle(torch.tensor([3.0, -5.0])))
print(settle(torch.tensor([0.5, 0.1])))
