import torch
from torch import nn


def padding_mask(lengths, width=None):
    if width is None:
        width = lengths.max().item()
    places = torch.arange(width, device=lengths.device)
    return places.unsqueeze(0) >= lengths.unsqueeze(1)


class Pooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, frames, lengths):
        scores = self.score(frames).squeeze(-1)
        torch._assert_async(lengths.max() == frames.shape[1], "sizes do not fit: the longest of `lengths` is not `frames.shape[1]`")
        scores = scores.masked_fill(padding_mask(lengths, width=frames.shape[1]), float("-inf"))
        return (torch.softmax(scores, 1).unsqueeze(-1) * frames).sum(1)


torch.manual_seed(0)
pool = torch.compile(Pooling())
print(pool(torch.ones(2, 5, 4), torch.tensor([5, 3])).shape)
