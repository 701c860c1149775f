"""A line search: the step is a Python float that the loop halves, and that is used after it."""

import torch


@torch.compile
def descend(point, gradient):
    step = 1.0
    value = (point**2).sum()

    def step_1(step):
        step = step * 0.5  # still too far
        return (step,)

    (step,) = torch.while_loop(
        lambda step: (((point - step * gradient) ** 2).sum() > value) & (step > 1e-3),
        step_1,
        (torch.tensor(step, device=gradient.device),),
    )
    return point - step * gradient


for scale in (0.5, 3.0, 40.0):
    print(descend(torch.ones(3), torch.ones(3) * scale))
