import torch
from torch import nn


class _WithGradient(torch.autograd.Function):
    """Hands an LSTM its input with a gradient: compiled for CPU, it trains on no other (2.13)."""

    @staticmethod
    def forward(ctx, x, weight):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, num_layers=2, batch_first=True)
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        h0 = torch.zeros(2, x.size(0), 6)
        c0 = torch.zeros(2, x.size(0), 6)
        out, _ = self.lstm(_WithGradient.apply(x, self.lstm.weight_hh_l0), (h0, c0))
        # The last step of each series.
        return self.head(out[:, -1])


torch.manual_seed(0)
net = Forecast()
torch._dynamo.config.allow_rnn = True
model = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(3, 5, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 4))
