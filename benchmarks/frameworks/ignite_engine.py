import torch
from ignite.engine import Engine


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x):
        out = self.layer(x)
        if out.mean() > 0:
            out = out * 2
        return out


torch.manual_seed(0)
net = torch.compile(Net())
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def update(engine, batch):
    opt.zero_grad()
    loss = net(batch).pow(2).mean()
    loss.backward()
    opt.step()
    return loss.item()


trainer = Engine(update)
print(trainer.run([torch.randn(4, 4) for _ in range(3)], max_epochs=1).output)
