import io

import torch

file = io.BytesIO()


@torch.compile
def f(x, w, n):
    h = x @ w
    for i in range(n):
        if i == 0:
            torch.save([i, h], file)
        h = torch.tanh(h @ w)
    return h


torch.manual_seed(0)
w = torch.randn(3, 3, requires_grad=True)
f(torch.ones(2, 3), w, 3).sum().backward()
print(w.grad, file.tell() > 0)
