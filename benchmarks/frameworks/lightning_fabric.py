import lightning as L
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x):
        out = self.layer(x)
        if out.mean() > 0:
            out = out * 2
        return out


fabric = L.Fabric(accelerator="cpu", devices=1)
fabric.launch()
torch.manual_seed(0)
net = torch.compile(Net())
net, opt = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
for _ in range(3):
    loss = net(torch.randn(4, 4)).pow(2).mean()
    fabric.backward(loss)
    opt.step()
    opt.zero_grad()
print(loss)
