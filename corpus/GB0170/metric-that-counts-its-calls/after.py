"""A metric that counts its updates, and takes scores of any range."""

import torch
from torch import nn

torch._dynamo.config.allow_unspec_int_on_nn_module = True


def shares(scores: torch.Tensor) -> torch.Tensor:
    scores = scores.flatten()
    scores = torch.where(
        torch.all((scores >= 0) * (scores <= 1)),
        scores,
        scores.sigmoid(),
    )
    return scores


class Hits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("hits", torch.zeros(2, dtype=torch.long))
        self.updates = 0

    def update(self, scores: torch.Tensor, labels: torch.Tensor) -> None:
        self.updates += 1
        right = (shares(scores) > 0.5).long() == labels.flatten()
        self.hits += torch.stack([right.sum(), (~right).sum()])


torch.manual_seed(0)
metric = Hits()
update = torch.compile(metric.update)
for raw in (True, False, True, False):
    scores = torch.randn(3, 4) if raw else torch.rand(3, 4)
    update(scores, (torch.rand(3, 4) < 0.4).long())
print(metric.updates, metric.hits.tolist())
