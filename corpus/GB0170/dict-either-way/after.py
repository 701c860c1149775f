import torch


@torch.compile
def outputs(x):
    return torch.cond(
        x.sum() > 0,
        lambda: {"a": x * 2, "b": x.exp()},
        lambda: {"a": x - 1, "b": x.sin()},
    )


print(outputs(torch.ones(3)), outputs(-torch.ones(3)))
