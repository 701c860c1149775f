"""Padding is masked where there is any: what follows asks whether there is a mask."""

import torch


class Pool(torch.nn.Module):
    def __init__(self, size=4, pad=0):
        super().__init__()
        self.embed = torch.nn.Embedding(8, size)
        self.pad = pad
        self.mix = torch.nn.Linear(size, size)

    def forward(self, ids):
        mask = None
        if (ids == self.pad).any():
            mask = ids != self.pad
        hidden = self.mix(self.embed(ids))
        if mask is not None:
            hidden = hidden.masked_fill(~mask[..., None], 0.0)
        count = mask.sum(1, keepdim=True).clamp(min=1) if mask is not None else ids.shape[1]
        return torch.tanh(hidden.sum(1) / count)


torch.manual_seed(0)
model = torch.compile(Pool())
print(model(torch.tensor([[1, 2, 0], [3, 4, 5]])), model(torch.tensor([[1, 2, 6], [3, 4, 5]])))
