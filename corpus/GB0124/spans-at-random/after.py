import torch
import torch.nn as nn


@torch.library.custom_op("before::compute_x", mutates_args=())
def compute_x(freq_mask: int, f: int, x: torch.Tensor) -> torch.Tensor:
    f_len = torch.randint(0, freq_mask, (1,)).item()
    f0 = torch.randint(0, f - f_len, (1,)).item()
    x = x.clone()
    x[:, f0:f0 + f_len] = 0
    return x


compute_x.register_fake(lambda freq_mask, f, x: x.new_empty(x.shape))


compute_x.register_effect(torch.library.EffectType.ORDERED)


@torch.library.custom_op("before::forward_op", mutates_args=("x",))
def forward_op(time_mask: int, t: int, x: torch.Tensor) -> None:
    t_len = torch.randint(0, time_mask, (1,)).item()
    t0 = torch.randint(0, t - t_len, (1,)).item()
    x[:, :, t0:t0 + t_len] = 0


forward_op.register_fake(lambda time_mask, t, x: None)


forward_op.register_effect(torch.library.EffectType.ORDERED)


class SpecAugment(nn.Module):
    def __init__(self, freq_mask=3, time_mask=4):
        super().__init__()
        self.freq_mask = freq_mask
        self.time_mask = time_mask

    def forward(self, x):
        b, f, t = x.shape
        if self.training:
            x = compute_x(self.freq_mask, f, x)
            forward_op(self.time_mask, t, x)
        return x


torch.manual_seed(0)
aug = torch.compile(SpecAugment())
for _ in range(3):
    print(aug(torch.ones(2, 8, 10)).sum().item())
