"""A step of a generation that tells Python whether all rows have ended."""

import torch
from torch import nn

torch._dynamo.config.capture_scalar_outputs = True


class Decoder(nn.Module):
    def __init__(self, words: int = 7, size: int = 6, end: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.head = nn.Linear(size, words)
        self.end = end

    @torch.no_grad()
    def forward(self, last: torch.Tensor, ended: torch.Tensor):
        best = self.head(torch.tanh(self.embedding(last))).argmax(-1)
        best = torch.where(ended, self.end, best)
        ended = ended | (best == self.end)
        return best, ended, ended.all().item()


torch.manual_seed(3)
decoder = torch.compile(Decoder())
decoder.head.bias.data[0] += 0.3
last, ended = torch.tensor([1, 4, 6]), torch.zeros(3, dtype=torch.bool)
for number in range(8):
    last, ended, over = decoder(last, ended)
    print(number, last.tolist(), over)
    if over:
        break
