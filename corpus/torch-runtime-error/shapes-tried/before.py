import torch


@torch.compile
def f(x, bias):
    try:
        y = x + bias
    except RuntimeError:
        # one number for each row
        y = x + bias[:, None]
    return y.relu()


x = torch.arange(6.0).reshape(2, 3)
print(f(x, torch.tensor([1.0, -9.0])))
print(f(x, torch.tensor([1.0, -9.0, 2.0])))
