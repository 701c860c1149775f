"""Rows that are hardly used start anew from the batch, by a method of the table."""

import torch


class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.randn(6, 3))
        self.register_buffer("used", torch.zeros(6))

    @torch.no_grad()
    def start_anew(self, batch, which):
        picked = batch[torch.randint(0, batch.shape[0], (self.rows.shape[0],))]
        self.rows.copy_(torch.where(which[:, None], picked, self.rows))

    def look_after(self, batch):
        worn = self.used < 1
        if not worn.any():
            return
        batch = batch.reshape(-1, batch.shape[-1])
        self.start_anew(batch, which=worn)

    def forward(self, batch):
        self.look_after(batch)
        near = torch.cdist(batch, self.rows).argmin(-1)
        self.used.mul_(0.5).add_(torch.nn.functional.one_hot(near, 6).sum(0))
        return self.rows[near]


if __name__ == "__main__":
    torch.manual_seed(0)
    table = torch.compile(Table())
    for _ in range(4):
        print("%.3f" % table(torch.randn(40, 3)).sum())
