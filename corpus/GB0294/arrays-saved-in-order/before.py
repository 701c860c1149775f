import os

import numpy as np
import torch


class Features(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 2, 3)
        self.folder, self.count = folder, 0
        os.makedirs(folder, exist_ok=True)

    def forward(self, x):
        y = self.conv(x)
        np.save(os.path.join(self.folder, f"part_{self.count}.npy"), y.detach().cpu().numpy())
        self.count += 1
        return y.amax(-1)


torch.manual_seed(0)
features = torch.compile(Features("parts"))
for _ in range(3):
    features(torch.randn(2, 1, 8)).sum().backward()
print(sorted(os.listdir("parts")))
