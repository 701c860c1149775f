import torch
from torch import nn


class Exploded(ArithmeticError):
    pass


@torch.library.custom_op(
    "before::check_scaled",
    mutates_args=(),
    schema="(Tensor length, str[] labels, Tensor[] steps) -> ()",
)
def check_scaled(length: torch.Tensor, labels: list[str], steps: list[torch.Tensor]) -> None:
    if not torch.isfinite(length):
        bad = []
        for label, step in zip(labels, steps):
            count = (~torch.isfinite(step)).sum().item()
            if count:
                bad.append(f"{label} ({count} of {step.numel()})")
        raise Exploded("not finite: " + ", ".join(bad))


check_scaled.register_fake(lambda length, labels, steps: None)
check_scaled.register_effect(torch.library.EffectType.ORDERED)


def scaled(labels: list[str], steps: list[torch.Tensor], limit: float) -> list[torch.Tensor]:
    """The steps, shortened together so that their common length is at most the limit."""
    length = torch.stack([step.norm() for step in steps]).norm()
    check_scaled(length, labels, steps)
    shrink = (limit / (length + 1e-6)).clamp(max=1.0)
    return [step * shrink for step in steps]


class Stepper(nn.Module):
    def __init__(self, limit: float = 0.5) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, pull, push):
        pulled, pushed = scaled(["pull", "push"], [pull.tanh(), push * 2], self.limit)
        return pulled.sum() + pushed.mean()


torch.manual_seed(0)
stepper = torch.compile(Stepper())
pull, push = torch.randn(3, requires_grad=True), torch.randn(2, 2)
stepper(pull, push).backward()
print(pull.grad.shape)
try:
    stepper(pull.detach(), torch.tensor([[float("inf"), 1.0], [1.0, float("nan")]]))
except ArithmeticError as error:
    print(error)
