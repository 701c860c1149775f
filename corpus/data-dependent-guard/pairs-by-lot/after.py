import itertools

import numpy as np
import torch
from torch import nn


@torch.library.custom_op("before::draw_forward", mutates_args=())
def draw_forward(anchor: torch.Tensor, pairs: int, count: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    drawn = np.random.choice(pairs, count, replace=False)
    return torch.as_tensor(drawn, dtype=torch.int64, device="cpu")


draw_forward.register_fake(
    lambda anchor, pairs, count: torch.empty(count, dtype=torch.int64, device="cpu")
)
draw_forward.register_effect(torch.library.EffectType.ORDERED)


class PairScores(nn.Module):
    def __init__(self, width, frames, count):
        super().__init__()
        self.pairs = list(itertools.combinations(range(frames), 2))
        self.count = min(count, len(self.pairs))
        self.score = nn.Linear(2 * width, 1)

    def forward(self, frames):
        total = self.score(frames[:, self.pairs[0], :].flatten(1))
        chosen = draw_forward(torch.empty(0), len(self.pairs), self.count)
        chosen = torch.tensor(self.pairs, device=frames.device)[chosen]
        for number in chosen:
            total = total + self.score(frames[:, number, :].flatten(1))
        return total


torch.manual_seed(0)
np.random.seed(0)
model = torch.compile(PairScores(4, 5, 3))
print(model(torch.randn(2, 5, 4)).shape)
