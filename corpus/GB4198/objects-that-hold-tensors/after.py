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


def copied(value, memo):
    """What `copy.deepcopy` gives for tensors without a history, and for what holds them."""
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, (int, float, str, type(None))):
        return value
    if type(value) is torch.Tensor and not value.requires_grad:
        new = value.detach().clone()
    elif type(value) in (Cache, Layer):
        new = object.__new__(type(value))
        memo[id(value)] = new
        for attribute, each in vars(value).items():
            setattr(new, attribute, copied(each, memo))
    elif type(value) is dict:
        new = {}
        memo[id(value)] = new
        for key, each in value.items():
            new[key] = copied(each, memo)
    elif type(value) is list:
        new = []
        memo[id(value)] = new
        for each in value:
            new.append(copied(each, memo))
    elif type(value) is tuple:
        new = tuple([copied(each, memo) for each in value])
    else:
        return copy.deepcopy(value, memo)
    memo[id(value)] = new
    return new


@torch.compile(backend="aot_eager")
def decode(prefix, steps):
    cache = Cache(2)
    for layer in cache.layers:
        layer.update(prefix)
    out = []
    for step in steps.unbind(1):
        mine = copied(cache, {})  # no step sees the others
        for layer in mine.layers:
            step = step + layer.update(step[:, None]).mean(1)
        out.append(step)
    return torch.stack(out, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(decode(torch.randn(2, 3, 4), torch.randn(2, 3, 4)))
