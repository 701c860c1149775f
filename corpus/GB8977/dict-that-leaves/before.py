import torch


@torch.compile
def encode(x):
    class Output(dict):
        """A dict whose keys can be read as attributes."""

        def __getattr__(self, name):
            return self[name]

    hidden = torch.tanh(x)
    return Output(hidden=hidden, pooled=hidden.mean(0))


output = encode(torch.ones(3, 2))
print(output.pooled, type(output).__qualname__)
