import torch


@torch.library.custom_op("before::start_op", mutates_args=("ready", "codes", "counts"))
def start_op(
    ready: torch.Tensor, codes: torch.Tensor, rows: torch.Tensor, counts: torch.Tensor,
) -> None:
    if ready:
        return
    ready.data.copy_(torch.Tensor([True]))
    codes.data.copy_(rows[:4])
    counts.data.fill_(1)


start_op.register_fake(lambda ready, codes, rows, counts: None)


class Codebook(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.zeros(1))
        self.register_buffer("codes", torch.zeros(4, 3))
        self.register_buffer("counts", torch.zeros(4))

    def start(self, rows):
        start_op(self.ready, self.codes, rows, self.counts)

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
