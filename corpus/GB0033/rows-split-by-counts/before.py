import torch
import torch.nn.functional as F
from torch import nn


def grouped(up, down, rows, counts):
    counts = counts.tolist()

    # Rows that fill up the buffer belong to nobody.
    unused = rows.shape[0] - sum(counts)

    parts = torch.split(rows[: sum(counts)], split_size_or_sections=counts, dim=0)
    outputs = []
    for number, part in enumerate(parts):
        hidden = F.silu(part @ up[number])
        outputs.append(hidden @ down[number])
    out = torch.cat(outputs, dim=0)
    return torch.vstack((out, out.new_zeros((unused, out.shape[-1]))))


class Layer(nn.Module):
    def __init__(self, experts=3, width=4):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 8))
        self.down = nn.Parameter(torch.randn(experts, 8, width))

    def forward(self, x):
        chosen = self.gate(x).argmax(dim=-1)
        order = torch.argsort(chosen, stable=True)
        experts = self.up.shape[0]
        counts = torch.histc(chosen.float(), bins=experts, min=0, max=experts - 1).long()
        done = grouped(self.up, self.down, x[order], counts)
        return torch.zeros_like(x).index_add(0, order, done)


torch.manual_seed(0)
layer = torch.compile(Layer())
layer(torch.randn(6, 4)).sum().backward()
