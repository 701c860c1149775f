import torch


class Balance(torch.nn.Module):
    def __init__(self, size=6, experts=4):
        super().__init__()
        self.gate = torch.nn.Linear(size, experts)
        self.experts = experts

    def forward(self, x):
        shares = self.gate(x).softmax(-1)
        chosen = shares.topk(2, dim=-1).indices
        ids = chosen.flatten()
        load = ids.new_zeros(self.experts, dtype=torch.int64).scatter_add_(0, ids, torch.ones_like(ids, dtype=torch.int64))
        load = load / chosen.numel()
        return (shares.mean(0) * load).sum() * self.experts


torch.manual_seed(0)
model = torch.compile(Balance())
loss = model(torch.randn(5, 6))
loss.backward()
print(loss)
