"""Labels are checked where there are any."""

import torch
from torch import nn


class Config:
    vocab_size = 12


class Classifier(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.head = nn.Linear(4, config.vocab_size)

    def forward(self, x, labels=None):
        if labels is not None and labels.max() >= self.config.vocab_size:
            raise ValueError(f"Label values must be <= vocab_size: {self.config.vocab_size}")
        logits = self.head(x)
        if labels is None:
            return logits
        return nn.functional.cross_entropy(logits, labels)


torch.manual_seed(0)
model = torch.compile(Classifier(Config()))
loss = model(torch.randn(3, 4), torch.tensor([3, 11, 0]))
loss.backward()
print(model(torch.randn(2, 4)).shape, round(loss.item(), 3))
