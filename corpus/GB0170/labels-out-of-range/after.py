"""Labels are checked where there are any."""

import torch
from torch import nn


class Config:
    vocab_size = 12


@torch.library.custom_op("before::check_forward", mutates_args=())
def check_forward(labels: torch.Tensor, vocab_size: torch.types.Number) -> None:
    if labels.max() >= vocab_size:
        raise ValueError(f"Label values must be <= vocab_size: {vocab_size}")


check_forward.register_fake(lambda labels, vocab_size: None)
check_forward.register_effect(torch.library.EffectType.ORDERED)


class Classifier(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.head = nn.Linear(4, config.vocab_size)

    def forward(self, x, labels=None):
        if labels is not None:
            check_forward(labels, self.config.vocab_size)
        logits = self.head(x)
        if labels is None:
            return logits
        return nn.functional.cross_entropy(logits, labels)


torch.manual_seed(0)
model = torch.compile(Classifier(Config()))
loss = model(torch.randn(3, 4), torch.tensor([3, 11, 0]))
loss.backward()
print(model(torch.randn(2, 4)).shape, round(loss.item(), 3))
