import time

import torch


class Timed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.spent = 0.0

    def forward(self, x):
        started = time.perf_counter()
        if x.sum() > 2:
            x = x * 2
        self.spent += time.perf_counter() - started
        return x


timed = Timed()
run = torch.compile(timed)
print(run(torch.ones(3)), run(-torch.ones(3)), timed.spent > 0)
