import csv
import os
import sys

import torch

PATH = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "rows.csv")


def add_row(step, *values):
    first = not os.path.exists(PATH)
    with open(PATH, "a", newline="") as file:
        rows = csv.writer(file)
        if first:
            rows.writerow(["step", "low", "high"])
        rows.writerow([step, *(f"{value:.3f}" for value in values)])


@torch.library.custom_op(f"{__name__.replace('.', '_')}::add_row_forward", mutates_args=())
def add_row_forward(step: torch.types.Number, y: torch.Tensor) -> None:
    add_row(step, y.min().item(), y.max().item())


add_row_forward.register_fake(lambda step, y: None)
add_row_forward.register_effect(torch.library.EffectType.ORDERED)


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x, step: int):
        y = x * self.gain
        add_row_forward(step, y)  # for the plots
        return y.sum()


scale = torch.compile(Scale())
for step in range(2):
    scale(torch.arange(3.0) + step, step).backward()
with open(PATH) as file:
    print(file.read())
os.remove(PATH)
