import torch


def refine(x, rounds: int):
    for i in range(rounds):
        x = x - x.mean()
        print(f"round {i}: largest {x.abs().max():.3f}", x.detach()[0], sep=" of ")
        x.mul_(0.5)
    return x


compiled = torch.compile(refine)
print(compiled(torch.arange(6.0).reshape(2, 3), 3))
print(compiled(torch.ones(2, 3), 3))
