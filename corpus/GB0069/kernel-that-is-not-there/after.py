import os

import torch


def _load_kernel():
    """The fast kernel, where its package is installed."""
    if os.environ.get("WITHOUT_KERNELS", "0") == "1":
        return None
    try:
        from kernels_that_nobody_has import attend
    except ImportError:
        return None
    return attend


_KERNEL = _load_kernel()


def may_use_kernel(x):
    return _KERNEL is not None and x.is_cuda


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.project(x)
        if may_use_kernel(x):
            return _KERNEL(x)
        return (x @ x.transpose(-1, -2)).softmax(-1) @ x


torch.manual_seed(0)
attention = torch.compile(Attention())
for rows in (2, 3):
    print(f"{attention(torch.rand(rows, 5, 4)).sum().item():.4f}")
