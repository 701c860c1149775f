"""A contrastive loss: one's own partner against everybody else of the batch."""

import torch


class Contrast(torch.nn.Module):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature

    def forward(self, left, right):
        count = left.shape[0]
        own = torch.eye(count, dtype=torch.bool, device=left.device)
        scores = left @ right.T / self.temperature
        attracted = -scores[own]
        scores = scores[~own].view(count, -1)
        return (attracted + torch.logsumexp(scores, dim=1)).mean()


loss = torch.compile(Contrast())
print(loss(torch.randn(4, 8), torch.randn(4, 8)))
