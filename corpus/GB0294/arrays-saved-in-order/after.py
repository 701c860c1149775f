import os

import numpy as np
import torch


@torch.library.custom_op("before::forward_op", mutates_args=())
def forward_op(folder: str, count: int, y: torch.Tensor) -> None:
    np.save(os.path.join(folder, f"part_{count}.npy"), y.detach().cpu().numpy())


forward_op.register_fake(lambda folder, count, y: None)


forward_op.register_effect(torch.library.EffectType.ORDERED)


class Features(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 2, 3)
        self.folder, self.count = folder, 0
        os.makedirs(folder, exist_ok=True)

    def forward(self, x):
        y = self.conv(x)
        forward_op(self.folder, self.count, y)
        self.count += 1
        return y.amax(-1)


torch.manual_seed(0)
features = torch.compile(Features("parts"))
for _ in range(3):
    features(torch.randn(2, 1, 8)).sum().backward()
print(sorted(os.listdir("parts")))
