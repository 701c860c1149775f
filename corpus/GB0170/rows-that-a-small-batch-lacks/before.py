import torch


class Codebook(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.zeros(1))
        self.register_buffer("codes", torch.zeros(4, 3))
        self.register_buffer("counts", torch.zeros(4))

    def start(self, rows):
        if self.ready:
            return
        self.ready.data.copy_(torch.Tensor([True]))
        self.codes.data.copy_(rows[:4])
        self.counts.data.fill_(1)

    def forward(self, rows):
        self.start(rows)
        nearest = torch.cdist(rows, self.codes).argmin(-1)
        self.counts.mul_(0.9).add_(torch.nn.functional.one_hot(nearest, 4).sum(0), alpha=0.1)
        return self.codes[nearest]


if __name__ == "__main__":
    torch.manual_seed(0)
    book = torch.compile(Codebook())
    for _ in range(2):
        print(book(torch.randn(6, 3)).sum())
