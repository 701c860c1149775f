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
        tokens = order // self.top
        sorted_ids = ids[order]
        torch._assert_async(((sorted_ids >= 0) & (sorted_ids < len(self.experts))).all(), "a number is not that of an expert")
        for number in range(len(self.experts)):
            own = sorted_ids == number
            here = tokens
            made = self.experts[number](torch.where(own[:, None], x[here], 0))
            made.mul_(torch.where(own[:, None], weights[order], 0))
            total.index_add_(0, here, torch.where(own[:, None], made, 0))
        return total


if __name__ == "__main__":
    torch.manual_seed(0)
    mixture = torch.compile(Mixture().eval())
    for size in (5, 1):
        print("%.4f" % mixture(torch.randn(size, 4)).sum())
