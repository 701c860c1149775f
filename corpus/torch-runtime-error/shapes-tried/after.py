import torch


def fit(x, y):
    """Whether an operator takes both: tensors on one device, of shapes that broadcast."""
    if not (isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)):
        return True
    if x.device != y.device and not any(z.dim() == 0 and z.device.type == "cpu" for z in (x, y)):
        return False
    if not x.layout == y.layout == torch.strided:
        return x.layout == y.layout and x.shape == y.shape
    return all(m == n or 1 in (m, n) for m, n in zip(x.shape[::-1], y.shape[::-1]))


@torch.compile
def f(x, bias):
    if fit(x, bias):
        y = x + bias
    else:
        # one number for each row
        y = x + bias[:, None]
    return y.relu()


x = torch.arange(6.0).reshape(2, 3)
print(f(x, torch.tensor([1.0, -9.0])))
print(f(x, torch.tensor([1.0, -9.0, 2.0])))
