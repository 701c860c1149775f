import torch


@torch.compile
def standardise(x):
    with torch.no_grad():
        stats = torch.Tensor([x.mean(), x.std()])
    return (x - stats[0]) / stats[1]


print(standardise(torch.arange(4.0)))
