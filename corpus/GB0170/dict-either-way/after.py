import torch


@torch.compile
def outputs(x):
    x_sum_above_0 = x.sum() > 0
    return {
        "a": torch.where(x_sum_above_0, x * 2, x - 1),
        "b": torch.where(
            x_sum_above_0,
            torch.where(x_sum_above_0, x, 1).exp(),
            x.sin(),
        ),
    }


print(outputs(torch.ones(3)), outputs(-torch.ones(3)))
