import torch


@torch.compile
def f(x, w):
    h = x @ w
    shifted = lambda t: t + h  # shares a variable: the function cannot be cut
    # an operator would show no grad_fn
    if not torch.compiler.is_compiling():
        print("hidden", h)
    return shifted(h.relu())


torch.manual_seed(0)
print(f(torch.ones(2, 3), torch.randn(3, 3, requires_grad=True)).sum())
