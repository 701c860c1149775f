"""Padding is masked where there is any: what follows asks whether there is a mask."""

import torch


class Pool(torch.nn.Module):
    def __init__(self, size=4, pad=0):
        super().__init__()
        self.embed = torch.nn.Embedding(8, size)
        self.pad = pad
        self.mix = torch.nn.Linear(size, size)

    def forward(self, ids):
        hidden = self.mix(self.embed(ids))
        ids_equals_pad_any = (ids == self.pad).any()
        mask_then = ids != self.pad
        hidden = torch.where(
            ids_equals_pad_any,
            hidden.masked_fill(~mask_then[..., None], 0.0),
            hidden,
        )
        count = torch.where(
            ids_equals_pad_any,
            mask_then.sum(1, keepdim=True).clamp(min=1),
            ids.shape[1],
        )
        return torch.tanh(hidden.sum(1) / count)


torch.manual_seed(0)
model = torch.compile(Pool())
print(model(torch.tensor([[1, 2, 0], [3, 4, 5]])), model(torch.tensor([[1, 2, 6], [3, 4, 5]])))
