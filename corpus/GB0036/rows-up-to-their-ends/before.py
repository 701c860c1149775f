"""A mixture of experts at inference: rows are sorted by expert, and each part ends where data say."""

import torch


class Mixture(torch.nn.Module):
    def __init__(self, width=4, count=3, top=2):
        super().__init__()
        self.top = top
        self.route = torch.nn.Linear(width, count)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))

    @torch.no_grad()
    def forward(self, x):
        weights, chosen = self.route(x).softmax(-1).topk(self.top, dim=-1)
        return self.infer(x, chosen.view(-1), weights.view(-1, 1))

    def infer(self, x, ids, weights):
        total = torch.zeros_like(x)
        order = ids.argsort()
        ends = ids.bincount().cpu().numpy().cumsum(0)
        tokens = order // self.top
        for number, end in enumerate(ends):
            start = 0 if number == 0 else ends[number - 1]
            if start == end:
                continue
            here = tokens[start:end]
            made = self.experts[number](x[here])
            made.mul_(weights[order[start:end]])
            total.index_add_(0, here, made)
        return total


if __name__ == "__main__":
    torch.manual_seed(0)
    mixture = torch.compile(Mixture().eval())
    for size in (5, 1):
        print("%.4f" % mixture(torch.randn(size, 4)).sum())
