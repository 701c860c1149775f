import numpy as np
import torch


@torch.library.custom_op("before::draw_forward_after", mutates_args=())
def draw_forward_after(anchor: torch.Tensor, count: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.as_tensor(np.random.permutation(count))


draw_forward_after.register_fake(
    lambda anchor, count: torch.empty(count, dtype=torch.int64, device="cpu")
)
draw_forward_after.register_effect(torch.library.EffectType.ORDERED)


class Mix(torch.nn.Module):
    def __init__(self, alpha=0.4):
        super().__init__()
        self.alpha = alpha
        self.layer = torch.nn.Linear(3, 2)

    @torch.compiler.disable(recursive=False)
    def forward(self, x, target):
        weight = np.random.beta(self.alpha, self.alpha)
        return self.forward_after(x, target, weight)

    def forward_after(self, x, target, weight):
        order = draw_forward_after(torch.empty(0), x.shape[0])
        out = self.layer(weight * x + (1 - weight) * x[order])
        loss = (out - target).abs()
        return weight * loss.mean() + (1 - weight) * (out - target[order]).abs().mean()


torch.manual_seed(0)
np.random.seed(0)
mix = torch.compile(Mix())
for _ in range(2):
    loss = mix(torch.randn(4, 3), torch.randn(4, 2))
    loss.backward()
    print(f"{loss.item():.4f}")
print(np.random.rand())
