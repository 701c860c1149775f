import torch


def first_state(size, requires_grad=True):
    return torch.zeros(size)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Linear(5, 4)

    def forward(self, x):
        h = first_state((x.shape[0], 4))
        c = first_state((x.shape[0], 4))
        for step in x.unbind(1):
            gate = torch.sigmoid(self.cell(torch.cat([step, h], dim=1)))
            c = c * gate + (1 - gate)
            h = torch.tanh(c)
        return h


torch.manual_seed(0)
model = Encoder()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for rows in (2, 3):
    loss = compiled(torch.rand(rows, 3, 1)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss.item():.4f}")
