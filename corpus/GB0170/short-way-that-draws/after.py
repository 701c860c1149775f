import torch


class Pool(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.drop = torch.nn.Dropout(0.25)

    def hidden(self, values, mask):
        values = self.drop(self.layer(values))
        values = self.drop(values * mask.unsqueeze(-1))
        return values, values.shape[1]

    def forward(self, values, mask):
        hidden, size = self.hidden(values, mask)
        return hidden.sum(1) / size


torch.manual_seed(0)
pool = Pool()
compiled = torch.compile(pool)
for lengths in ([4, 4], [2, 4], [4, 4], [1, 3]):
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    out = compiled(torch.rand(2, 4, 3), mask).square().sum()
    out.backward()
    print(f"{out.item():.4f} {pool.layer.bias.grad.sum().item():.4f}")
