"""A rate that falls at milestones, looked up inside of the step."""

from bisect import bisect_right

import torch


class Schedule:
    def __init__(self, milestones, gamma=0.1):
        self.milestones, self.gamma = milestones, gamma

    def factor(self, step):
        return self.gamma ** sum(not step < item for item in self.milestones)


SCHEDULE = Schedule([3, 5])


@torch.compile
def update(weight, gradient, step):
    return weight - 0.2 * SCHEDULE.factor(step) * gradient


weight = torch.ones(3)
for step in range(7):
    weight = update(weight, torch.arange(3.0), step)
print(weight)
