"""A safe step that only prepares is shown with the unsafe one that stands on top of it."""

from __future__ import annotations

from planted import Gbfix

from gbfix.schema import Safety

PROGRAM = """
import random

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            if random.random() < 0.5:
                continue
            x = torch.relu(layer(x))
        return x


random.seed(1)
net = torch.compile(Net(), backend="aot_eager")
for _ in range(2):
    print(net(torch.randn(2, 3)).shape)
"""


def test_both_steps_are_one_unsafe_patch(gbfix_run: Gbfix) -> None:
    report = gbfix_run(PROGRAM, select=("draw-to-op", "if-to-cond"))
    assert not report.patches
    (patch,) = report.unsafe_patches
    assert patch.codemods == ("draw-to-op", "if-to-cond")
    assert len(patch.titles) == 2 and patch.safety is Safety.UNSAFE
    assert "torch.cond" in patch.after and "custom_op" in patch.after
    assert "random.random() < 0.5" in patch.before
