"""Sizes of feature maps, put into a tensor and read where the maps are taken apart again."""

import torch


def by_level(flat, levels):
    parts = flat.split([rows * columns for rows, columns in levels], dim=1)
    maps = [part.unflatten(1, (rows, columns)) for part, (rows, columns) in zip(parts, levels)]
    return torch.stack([each.amax((1, 2)) for each in maps])


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = torch.nn.Linear(width, width)

    def forward(self, flat, levels):
        share = flat.shape[1] / levels.prod(-1)
        best = by_level(self.mix(flat), levels)
        return flat + (best * share[:, None, None]).sum(0)[:, None]


class Pyramid(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(width) for _ in range(2))

    def forward(self, maps):
        levels, flat = [], []
        for each in maps:
            _, _, rows, columns = each.shape
            levels.append((rows, columns))
            flat.append(each.flatten(2).transpose(1, 2))
        levels = torch.as_tensor(levels, dtype=torch.long)
        flat = torch.cat(flat, 1)
        for layer in self.layers:
            flat = layer(flat, levels)
        return flat


if __name__ == "__main__":
    torch.manual_seed(0)
    pyramid = torch.compile(Pyramid())
    for size in (6, 8):
        found = pyramid([torch.randn(2, 4, size, size), torch.randn(2, 4, size // 2, size // 2)])
        found.square().mean().backward()
        print(tuple(found.shape), "%.3f" % found.mean())
