import torch


@torch.compile
def standardise(x):
    with torch.no_grad():
        stats = torch.stack([x.mean(), x.std()]).detach().to(torch.float32)
    return (x - stats[0]) / stats[1]


print(standardise(torch.arange(4.0)))
