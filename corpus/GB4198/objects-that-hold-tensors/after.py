import copy

import torch


class Layer:
    def __init__(self):
        self.keys = None

    def update(self, keys):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 1)
        return self.keys


class Cache:
    def __init__(self, count):
        self.layers = [Layer() for _ in range(count)]


def copied(value):
    """What `copy.deepcopy` gives for tensors without a history, and for what holds them."""
    if type(value) is torch.Tensor and not value.requires_grad:
        return value.detach().clone()
    if type(value) is dict:
        return {key: copied(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)([copied(each) for each in value])
    if type(value) in (Cache, Layer):
        new = object.__new__(type(value))
        for attribute, each in vars(value).items():
            setattr(new, attribute, copied(each))
        return new
    return value if isinstance(value, (int, float, str, type(None))) else copy.deepcopy(value)


@torch.compile(backend="aot_eager")
def decode(prefix, steps):
    cache = Cache(2)
    for layer in cache.layers:
        layer.update(prefix)
    out = []
    for step in steps.unbind(1):
        mine = copied(cache)  # no step sees the others
        for layer in mine.layers:
            step = step + layer.update(step[:, None]).mean(1)
        out.append(step)
    return torch.stack(out, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(decode(torch.randn(2, 3, 4), torch.randn(2, 3, 4)))
