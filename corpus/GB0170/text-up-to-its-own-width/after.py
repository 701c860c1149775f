"""A text that grows until all rows have ended, or until it is as wide as it may get."""

import torch
from torch import nn

torch._dynamo.config.capture_scalar_outputs = True


class Captions(nn.Module):
    def __init__(self, words=4, width=10, end=1, most=9):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, words)
        self.end, self.most = end, most

    @torch.no_grad()
    def forward(self, ids, state):
        all_ended = torch.tensor(False, device=ids.device)
        open_rows = torch.ones(ids.shape[0], dtype=torch.long)
        ids_kept = []
        ids_start = ids.shape[-1]
        done = torch.tensor(False, device=state.device)
        while ids.shape[1] < self.most:
            done = done | all_ended
            state = torch.where(done, state, self.cell(self.table(torch.where(done, 0, ids[:, -1])), state))
            word = self.out(state).argmax(-1) * open_rows
            ids = torch.cat([ids, word[:, None]], dim=-1)
            ids_kept.append(torch.logical_not(done))
            open_rows = torch.where(done, open_rows, open_rows & (word != self.end).long())
            all_ended = open_rows.max() == 0
        if ids_kept:
            ids_count = torch.stack(ids_kept).sum().item()
            torch._check(ids_count >= 1)
            ids = ids.narrow(-1, 0, ids_start + ids_count).clone(memory_format=torch.contiguous_format)
        return ids


torch.manual_seed(3)
captions = Captions()
write = torch.compile(captions)
for scale in (1.0, 4.0, 9.0):
    print(write(torch.full((1, 1), 2), torch.randn(1, 10) * scale).tolist())
