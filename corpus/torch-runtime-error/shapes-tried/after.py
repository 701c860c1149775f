import torch


@torch.compile
def f(x, bias):
    if all(m == n or 1 in (m, n) for m, n in zip(x.shape[::-1], bias.shape[::-1])):
        y = x + bias
    else:
        # one number for each row
        y = x + bias[:, None]
    return y.relu()


x = torch.arange(6.0).reshape(2, 3)
print(f(x, torch.tensor([1.0, -9.0])))
print(f(x, torch.tensor([1.0, -9.0, 2.0])))
