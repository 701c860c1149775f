import dataclasses

import torch


@torch.compile
def f(x, size: int):
    @dataclasses.dataclass
    class Window:
        size: int
        padding: int = 1

        @property
        def total(self):
            return self.size + 2 * self.padding

    window = Window(size)
    return x[: window.total] * window.padding


print(f(torch.arange(9.0), 3))
