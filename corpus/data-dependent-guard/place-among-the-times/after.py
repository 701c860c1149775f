"""A step looks its time up in a table, and goes on from there by counting."""

import torch

torch._dynamo.config.capture_scalar_outputs = True


@torch.library.custom_op("before::find_op", mutates_args=())
def find_op(times: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    found = torch.nonzero(times == time)
    # Where a time stands twice, the second one counts.
    which = 1 if len(found) > 1 else 0
    return torch.tensor(found[which].item(), dtype=torch.int64)


find_op.register_fake(lambda times, time: torch.empty((), dtype=torch.int64))


class Plan:
    def __init__(self, times):
        self.times = times
        self.weights = torch.linspace(1.0, 0.1, len(times))
        self.place = None

    def find(self, time):
        return find_op(self.times, time).item()

    def weigh(self, x, time):
        if self.place is None:
            self.place = self.find(time)
        scaled = x * self.weights[self.place]
        self.place += 1
        return scaled


plan = Plan(torch.tensor([9.0, 5.0, 5.0, 2.0]))


@torch.compile
def step(x, time):
    return torch.tanh(plan.weigh(x, time))


with torch.no_grad():
    for start in (0, 1):
        plan.place = None
        x = torch.ones(3)
        for time in plan.times[start:3]:
            x = step(x, time)
        print("%.4f" % x.sum(), plan.place)
