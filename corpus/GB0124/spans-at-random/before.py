import torch
import torch.nn as nn


class SpecAugment(nn.Module):
    def __init__(self, freq_mask=3, time_mask=4):
        super().__init__()
        self.freq_mask = freq_mask
        self.time_mask = time_mask

    def forward(self, x):
        b, f, t = x.shape
        if self.training:
            f_len = torch.randint(0, self.freq_mask, (1,)).item()
            f0 = torch.randint(0, f - f_len, (1,)).item()
            x = x.clone()
            x[:, f0:f0 + f_len] = 0
            t_len = torch.randint(0, self.time_mask, (1,)).item()
            t0 = torch.randint(0, t - t_len, (1,)).item()
            x[:, :, t0:t0 + t_len] = 0
        return x


torch.manual_seed(0)
aug = torch.compile(SpecAugment())
for _ in range(3):
    print(aug(torch.ones(2, 8, 10)).sum().item())
