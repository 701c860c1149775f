import torch
from torch import nn


@torch.library.custom_op("before::compute_scaled", mutates_args=("begun",))
def compute_scaled(begun: torch.Tensor, x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    first = not begun.item()
    begun.fill_(True)
    scaled = x * gain
    if first:
        scaled = scaled / (x.abs().mean() + 1.0)
    return scaled.clone(memory_format=torch.contiguous_format)


@compute_scaled.register_fake
def _(begun, x, gain):
    return x.new_empty(x.shape, dtype=torch.promote_types(torch.result_type(x, 1.0), gain.dtype))


class Gain(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("gain", torch.ones(size))

    def forward(self, x):
        scaled = compute_scaled(self.begun, x, self.gain)
        return scaled.relu() + 1


torch.manual_seed(0)
gain = torch.compile(Gain(4))
for _ in range(3):
    print(f"{gain(torch.randn(2, 4)).sum().item():.4f}")
