import torch


class Refine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    @torch.compiler.disable(recursive=False)
    def forward(self, x, rounds):
        x, loss_rounds = self.forward_before(x, rounds)
        losses = []
        total = 0.0
        for loss_round in loss_rounds:
            losses.append(loss_round.item())
            total += loss_round.item()
        return x, losses, total

    def forward_before(self, x, rounds):
        loss_rounds = []
        for _ in range(rounds):
            x = self.fc(x).tanh()
            loss = x.pow(2).mean()
            loss_rounds.append(loss.detach().clone())
        return x, loss_rounds


torch.manual_seed(0)
net = Refine()
compiled = torch.compile(net)
x, losses, total = compiled(torch.ones(2, 3), 3)
x.sum().backward()
print(losses, total, net.fc.bias.grad)
