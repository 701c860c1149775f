import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
        self.losses = []

    @torch.compile
    def step_loss(self, x, y):
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        return loss

    def step(self, x, y):
        self.opt.zero_grad()
        loss = self.step_loss(x, y)
        loss.backward()
        self.opt.step()
        self.losses.append(loss.item())


torch.manual_seed(0)
trainer = Trainer(torch.nn.Linear(3, 2))
for _ in range(3):
    trainer.step(torch.randn(4, 3), torch.randn(4, 2))
print([round(loss, 4) for loss in trainer.losses])
