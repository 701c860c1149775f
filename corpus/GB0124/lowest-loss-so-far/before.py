import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(4, 2)
        self.losses = []
        self.lowest = float("inf")

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        value = loss.item()
        self.losses.append(value)
        if value < self.lowest:
            self.lowest = value
            print(f"lowest loss {value:.4f} in step {len(self.losses)}")
        return loss


torch.manual_seed(0)
trainer = Trainer()
step = torch.compile(trainer.step)
for _ in range(2):
    step(torch.randn(6, 4), torch.zeros(6, 2)).backward()
print(len(trainer.losses), round(trainer.lowest, 4))
