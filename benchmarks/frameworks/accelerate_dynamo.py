import torch
from accelerate import Accelerator


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x):
        out = self.layer(x)
        if out.mean() > 0:
            out = out * 2
        return out


acc = Accelerator(cpu=True, dynamo_backend="inductor")
torch.manual_seed(0)
net = Net()
net, opt = acc.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
for _ in range(3):
    loss = net(torch.randn(4, 4)).pow(2).mean()
    acc.backward(loss)
    opt.step()
    opt.zero_grad()
print(loss)
