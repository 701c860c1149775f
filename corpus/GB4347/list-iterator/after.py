import torch


@torch.compile(fullgraph=True)
def f(xs):
    xs = iter(xs)
    a = next(xs)
    b = next(xs)
    return a + b


xs = [torch.tensor(1.0), torch.tensor(2.0)]
print(f(xs))
