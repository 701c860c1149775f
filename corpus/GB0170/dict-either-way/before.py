import torch


@torch.compile
def outputs(x):
    if x.sum() > 0:
        return {"a": x * 2, "b": x.exp()}
    return {"a": x - 1, "b": x.sin()}


print(outputs(torch.ones(3)), outputs(-torch.ones(3)))
