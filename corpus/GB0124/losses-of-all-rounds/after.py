import torch


class Refine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x, rounds):
        losses = []
        total = 0.0
        for _ in range(rounds):
            x = self.fc(x).tanh()
            loss = x.pow(2).mean()
            losses.append(loss.item())
            total += loss.item()
        return x, losses, total


torch.manual_seed(0)
net = Refine()
torch._dynamo.config.capture_scalar_outputs = True
compiled = torch.compile(net)
x, losses, total = compiled(torch.ones(2, 3), 3)
x.sum().backward()
print(losses, total, net.fc.bias.grad)
