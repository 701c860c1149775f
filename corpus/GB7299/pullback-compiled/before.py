import torch


def loss(x):
    return x.sin().sum()


value, pullback = torch.func.vjp(loss, torch.ones(2))
pullback = torch.compile(pullback)
print(value, pullback(torch.tensor(1.0)))
