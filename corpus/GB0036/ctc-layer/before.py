"""A CTC loss that a layer computes, on padded targets."""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, letters=10):
        super().__init__()
        self.lines = nn.Linear(6, letters)
        self.ctc = nn.CTCLoss(blank=letters - 1, reduction="sum", zero_infinity=True)

    def forward(self, columns, text, text_lengths: torch.Tensor):
        scores = self.lines(columns).log_softmax(-1).transpose(0, 1)
        widths = torch.full((columns.shape[0],), columns.shape[1])
        return self.ctc(scores, text, widths, text_lengths) / columns.shape[0]


torch.manual_seed(0)
reader = torch.compile(Reader())
loss = reader(torch.randn(2, 20, 6), torch.tensor([[1, 2, 3], [4, 4, 0]]), torch.tensor([3, 2]))
loss.backward()
print(round(loss.item(), 3))
