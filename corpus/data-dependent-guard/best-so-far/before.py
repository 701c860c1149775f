import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.best = float("inf")
        self.misses = 0

    def forward(self, x):
        loss = self.layer(x).pow(2).mean()
        if loss.item() < self.best:
            self.best = loss.item()
            self.misses = 0
        else:
            self.misses += 1
        return loss


torch.manual_seed(0)
model = Model()
step = torch.compile(model)
for scale in (3.0, 1.0, 2.0):
    step(scale * torch.ones(2, 3)).backward()
print(round(model.best, 3), model.misses)
