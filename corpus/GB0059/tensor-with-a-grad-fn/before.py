import torch


@torch.compile
def scale(x, w):
    y = x * w
    print("scaled", y)
    return y.sum()


w = torch.ones(3, requires_grad=True)
scale(torch.arange(3.0), w).backward()
print(w.grad)
