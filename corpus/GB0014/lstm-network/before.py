import torch
from torch import nn


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, num_layers=2, batch_first=True)
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        h0 = torch.zeros(2, x.size(0), 6)
        c0 = torch.zeros(2, x.size(0), 6)
        out, _ = self.lstm(x, (h0, c0))
        # The last step of each series.
        return self.head(out[:, -1])


torch.manual_seed(0)
net = Forecast()
model = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(3, 5, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 4))
