import torch


@torch.compile
def step(x):
    loss = x.pow(2).mean()
    with open("losses.txt", "a") as out:
        out.write(f"{loss.item():.3f}\n")
    return loss * 2


print(step(torch.ones(3)))
print(step(torch.arange(3.0)))
