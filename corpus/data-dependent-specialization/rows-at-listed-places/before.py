import torch


class Schedule:
    def __init__(self):
        self.times = torch.tensor([9.0, 7.0, 7.0, 4.0, 1.0])
        self.levels = self.times / 10

    def place(self, time):
        places = (self.times == time).nonzero()
        return places[1 if len(places) > 1 else 0].item()

    def level(self, times):
        places = [self.place(time) for time in times]
        return self.levels[places].flatten()


schedule = Schedule()


@torch.compile
def noised(x, noise, times):
    level = schedule.level(times).view(-1, 1)
    return level * noise + (1 - level) * x


torch.manual_seed(0)
for times in ([9.0, 1.0], [7.0, 4.0]):
    x, noise = torch.rand(2, 3), torch.rand(2, 3)
    print(f"{noised(x, noise, torch.tensor(times)).sum().item():.4f}")
