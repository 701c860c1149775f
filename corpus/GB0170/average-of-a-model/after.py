import copy

import torch


class Average(torch.nn.Module):
    def __init__(self, model, decay=0.9, begin=1):
        super().__init__()
        self.model, self.average = model, copy.deepcopy(model).requires_grad_(False)
        self.decay, self.begin = decay, begin
        self.register_buffer("step", torch.tensor(0))

    def weight(self):
        age = (self.step - self.begin).clamp(min=0)
        return (1 - 1 / (1 + age)).clamp(max=self.decay)

    @torch.no_grad()
    def update(self):
        self.step += 1
        step_2_differs_from_0 = self.step % 2 != 0
        step_at_most_begin = self.step <= self.begin
        for mean_then, value_then in zip(self.average.parameters(), self.model.parameters()):
            mean_then.copy_(
                torch.where(
                    step_2_differs_from_0,
                    mean_then,
                    torch.where(step_at_most_begin, value_then, mean_then),
                ),
            )
        weight = self.weight()
        for mean_else, value_else in zip(self.average.parameters(), self.model.parameters()):
            mean_else.copy_(torch.where(step_2_differs_from_0, mean_else, torch.where(
                    step_at_most_begin,
                    mean_else,
                    mean_else.lerp(value_else, 1.0 - weight),
                )))


if __name__ == "__main__":
    torch.manual_seed(0)
    average = Average(torch.nn.Linear(3, 3))
    update = torch.compile(average.update)
    for _ in range(4):
        with torch.no_grad():
            average.model.weight.add_(0.1)
        update()
    print(average.average.weight.sum(), average.step)
