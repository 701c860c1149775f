import torch


def pooled(tokens, sizes):
    levels = tokens.split([h * w for h, w in sizes], dim=1)
    return torch.stack(
        [level.view(len(level), h, w, -1).amax((1, 2)) for level, (h, w) in zip(levels, sizes)]
    )


@torch.compile
def encode(maps):
    sizes_list = [m.shape[-2:] for m in maps]
    sizes = torch.tensor(sizes_list)
    starts = torch.cat((sizes.new_zeros(1), sizes.prod(1).cumsum(0)[:-1]))
    tokens = torch.cat([m.flatten(2).transpose(1, 2) for m in maps], 1)
    return pooled(tokens, sizes_list), starts


torch.manual_seed(0)
pyramid = [torch.randn(2, 3, 4, 6), torch.randn(2, 3, 2, 3)]
levels, starts = encode(pyramid)
print(levels.sum(), starts)
