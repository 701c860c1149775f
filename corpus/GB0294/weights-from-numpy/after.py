import numpy as np
import torch


@torch.library.custom_op("before::draw_forward", mutates_args=())
def draw_forward(anchor: torch.Tensor, alpha: torch.types.Number) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(np.random.beta(alpha, alpha), dtype=torch.float64, device="cpu")


draw_forward.register_fake(lambda anchor, alpha: torch.empty((), dtype=torch.float64, device="cpu"))
draw_forward.register_effect(torch.library.EffectType.ORDERED)


@torch.library.custom_op("before::draw_forward_1", mutates_args=())
def draw_forward_1(anchor: torch.Tensor, count: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.as_tensor(np.random.permutation(count))


draw_forward_1.register_fake(
    lambda anchor, count: torch.empty(count, dtype=torch.int64, device="cpu")
)
draw_forward_1.register_effect(torch.library.EffectType.ORDERED)


class Mix(torch.nn.Module):
    def __init__(self, alpha=0.4):
        super().__init__()
        self.alpha = alpha
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x, target):
        weight = draw_forward(torch.empty(0), self.alpha)
        order = draw_forward_1(weight, x.shape[0])
        out = self.layer(weight * x + (1 - weight) * x[order])
        loss = (out - target).abs()
        return weight.to(loss.dtype) * loss.mean() + (1 - weight).to(out.dtype) * (out - target[order]).abs().mean()


torch.manual_seed(0)
np.random.seed(0)
mix = torch.compile(Mix())
for _ in range(2):
    loss = mix(torch.randn(4, 3), torch.randn(4, 2))
    loss.backward()
    print(f"{loss.item():.4f}")
print(np.random.rand())
