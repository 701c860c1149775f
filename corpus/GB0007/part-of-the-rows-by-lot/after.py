import random

import torch


@torch.library.custom_op("before::draw_forward", mutates_args=())
def draw_forward(anchor: torch.Tensor, count: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    drawn = list(range(count))
    random.shuffle(drawn)
    return torch.tensor(drawn, dtype=torch.int64, device="cpu")


draw_forward.register_fake(
    lambda anchor, count: torch.empty(count, dtype=torch.int64, device="cpu")
)
draw_forward.register_effect(torch.library.EffectType.ORDERED)


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        ids = draw_forward(torch.empty(0), x.shape[1])
        kept = ids[: len(ids) // 2]
        return self.layer(x[:, kept])


torch.manual_seed(0)
random.seed(1)
model = torch.compile(Half())
for _ in range(2):
    print(model(torch.randn(2, 6, 3)))
print(random.random())
