import torch


class Output(dict):
    """A dict whose keys can be read as attributes."""
    __qualname__ = "encode.<locals>.Output"

    def __getattr__(self, name):
        return self[name]


@torch.compile
def encode(x):
    hidden = torch.tanh(x)
    return Output(hidden=hidden, pooled=hidden.mean(0))


output = encode(torch.ones(3, 2))
print(output.pooled, type(output).__qualname__)
