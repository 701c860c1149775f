"""A writer is given the model that it asks, which may be any."""

import torch
from torch import nn

torch._dynamo.config.capture_scalar_outputs = True


class Model(nn.Module):
    def __init__(self, words=9, width=16):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        return self.out(torch.tanh(self.table(ids).cumsum(1)))


class Writer(nn.Module):
    def __init__(self, model, end):
        super().__init__()
        self.model = model
        self.end = end

    @torch.no_grad()
    def forward(self, ids):
        ids_kept = []
        ids_start = ids.shape[1]
        done = torch.tensor(False, device=ids.device)
        for _ in range(6):
            token = self.model(ids)[:, -1].argmax(dim=-1, keepdim=True)
            ids = torch.cat([ids, token], dim=1)
            ids_kept.append(torch.logical_not(done))
            done = done | (token == self.end).all()
        ids_count = torch.stack(ids_kept).sum().item()
        torch._check(ids_count >= 1)
        ids = ids.narrow(1, 0, ids_start + ids_count).clone(memory_format=torch.contiguous_format)
        return ids


torch.manual_seed(0)
write = torch.compile(Writer(Model(), end=3))
for _ in range(3):
    print(write(torch.randint(0, 9, (2, 4))).tolist())
