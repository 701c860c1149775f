import torch


# this is a function that Dynamo doesn't support (due to the graph_break() call).
def g(x):
    y = x.sin()
    z = y.sin()
    return z


@torch.compile(fullgraph=True)
def f(x):
    w = x.sin()
    return g(w)


torch.manual_seed(0)
print(f(torch.randn(3)))
