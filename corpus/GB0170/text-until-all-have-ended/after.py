"""A text that grows by a token a round, until every row has ended or it is long enough."""

import torch
from torch import nn

torch._dynamo.config.capture_scalar_outputs = True


class Writer(nn.Module):
    def __init__(self, words=9, width=16, end=3):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.mix = nn.Linear(width, width)
        self.out = nn.Linear(width, words)
        self.end = end

    def scores(self, ids):
        return self.out(torch.tanh(self.mix(self.table(ids)).cumsum(1)))[:, -1]

    @torch.no_grad()
    def forward(self, ids, longest):
        open_rows = ids.new_ones(ids.shape[0])
        length = ids.shape[1]
        ids_kept = []
        ids_start = ids.shape[-1]
        done = torch.tensor(False, device=open_rows.device)
        while length < longest:
            token = self.scores(ids).argmax(-1)
            token = token * open_rows
            ids = torch.cat([ids, token.unsqueeze(-1)], dim=-1)
            ids_kept.append(torch.logical_not(done))
            length += 1
            open_rows = torch.where(done, open_rows, open_rows.mul((token != self.end).long()))
            done = done | (open_rows.max() == 0)
        if ids_kept:
            ids_count = torch.stack(ids_kept).sum().item()
            torch._check(ids_count >= 1)
            ids = ids.narrow(-1, 0, ids_start + ids_count).clone(memory_format=torch.contiguous_format)
        return ids


torch.manual_seed(0)
write = torch.compile(Writer())
for _ in range(3):
    print(write(torch.randint(0, 9, (2, 4)), 10).tolist())
