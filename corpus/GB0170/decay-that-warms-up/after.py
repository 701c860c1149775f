import torch


class Average:
    def __init__(self, values, decay=0.999):
        self.decay = decay
        self.updates = torch.tensor(0)
        self.values = [value.clone() for value in values]

    @torch.no_grad()
    def update(self, values):
        decay = self.decay
        updates_at_least_0 = self.updates >= 0
        self.updates += torch.where(updates_at_least_0, 1, 0)
        decay = torch.where(
            updates_at_least_0,
            torch.where(
                ((1 + self.updates) / (10 + self.updates)).double() < self.decay,
                ((1 + self.updates) / (10 + self.updates)).double(),
                self.decay,
            ),
            decay,
        )
        for mine, value in zip(self.values, values):
            mine.sub_((1 - decay) * (mine - value))


average = Average([torch.zeros(3), torch.ones(2, 2)])
update = torch.compile(average.update)
for scale in (1.0, 2.0):
    update([scale * torch.ones(3), torch.zeros(2, 2)])
print(average.values, average.updates)
