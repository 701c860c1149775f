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


@torch.compile(backend="aot_eager")
def decode(prefix, steps):
    cache = Cache(2)
    for layer in cache.layers:
        layer.update(prefix)
    out = []
    for step in steps.unbind(1):
        mine = copy.deepcopy(cache)  # no step sees the others
        for layer in mine.layers:
            step = step + layer.update(step[:, None]).mean(1)
        out.append(step)
    return torch.stack(out, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(decode(torch.randn(2, 3, 4), torch.randn(2, 3, 4)))
