"""Generation stops at one of a few tokens."""

import torch


@torch.compile
def score(token, logits):
    if token in (0, 50256):
        return logits * 0
    return logits - logits.max()


logits = torch.arange(3.0)
for token in (7, 50256):
    print(score(torch.tensor(token), logits))
