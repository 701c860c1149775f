import torch


def crop(x, lengths):
    longest = int(lengths.max())
    return crop_after(x, longest)


@torch.compile
def crop_after(x, longest):
    return x[:, :longest] * 2


print(crop(torch.ones(2, 5), torch.tensor([3, 2])))
